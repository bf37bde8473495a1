//! Models on disk: fetched, checked, found.
