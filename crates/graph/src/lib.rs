//! Model graphs: operators, shapes, costs, splits, presets and the model file
