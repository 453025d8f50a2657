//! Plans, lowering to a schedule, the cost model and the simulator
