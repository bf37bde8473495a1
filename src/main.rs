//! Arguments to configuration to command; no decisions here.
fn main() {}
