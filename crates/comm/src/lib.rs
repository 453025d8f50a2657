//! How ranks meet: point-to-point messages and collectives
