//! Where samples come from: data sets, their formats, and the order in which samples are visited
