//! The public face of Paceline: `paceline` the library re-exports what users call.
