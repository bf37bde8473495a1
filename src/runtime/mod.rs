//! The real world: clock, gates, driver tasks, HTTP.
