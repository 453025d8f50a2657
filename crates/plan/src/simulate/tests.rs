//! Small cases, computed by hand.
