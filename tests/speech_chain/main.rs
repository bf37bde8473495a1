//! The ears, the recogniser and the voices on real sound. Without the models every test prints a
//! SKIP line; `floorkeeper models fetch` gets them, `FLOORKEEPER_MODELS_DIR` names another store.

mod answered;
mod ears;
mod recogniser;
mod sounds;
mod voices;
