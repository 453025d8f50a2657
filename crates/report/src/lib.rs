//! Tables and pages made from run directories
