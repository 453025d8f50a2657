//! Executes schedules: training loop, optimisers, checkpoints, resume
