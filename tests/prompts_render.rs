//! Prompts are spoken ahead by the configured synthesiser, whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use floorkeeper::cli::prompts::{RenderError, complete, render};
use floorkeeper::config::{Fallback, Script};
use floorkeeper::provider::tts::{TTSS, Tts, TtsOptions};
use floorkeeper::provider::{Surroundings, find};

/// A scripted synthesiser with these keys.
fn synthesiser(keys: &str) -> Arc<dyn Tts> {
    let around = Surroundings { models_dir: PathBuf::new(), language: "de".to_owned() };
    let table = toml::from_str(keys).expect("TOML");
    (find(TTSS, "tts.provider", "scripted").expect("known").build)(&table, &around).expect("built")
}

fn options() -> TtsOptions {
    TtsOptions { voice: None, language: "de".to_owned(), speed: 1.0 }
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("render-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[tokio::test(start_paused = true)]
async fn a_locale_without_sound_is_rendered_and_taken() {
    let dir = scratch("de");
    let mut fallback = Fallback::load(None).expect("right");
    let all = fallback.silent("de");
    assert!(!all.is_empty());
    complete(&mut fallback, synthesiser(""), &options(), &dir, "de-AT").await.expect("spoken");
    assert_eq!(fallback.silent("de"), []);
    for id in &all {
        assert!(dir.join("de").join(format!("{id}.wav")).exists(), "{id}");
        assert_ne!(fallback.sound("de", id), fallback.sound("en", id), "{id}");
    }
    // What is there is taken as it is: this synthesiser would not speak.
    let mut again = Fallback::load(None).expect("right");
    let broken = synthesiser("fail = \"500\"");
    complete(&mut again, broken, &options(), &dir, "de").await.expect("nothing to speak");
    assert_eq!(again.silent("de"), []);
    let _ = std::fs::remove_dir_all(dir);
}

#[tokio::test(start_paused = true)]
async fn a_synthesiser_that_does_not_speak_is_named() {
    let script = Script::read(None).expect("right");
    for (keys, why) in [
        ("fail = \"500\"", "rejected with status 500"),
        ("stall_after_ms = 0", "nothing complete came within 60 s"),
        ("empty = true", "empty: it finished and delivered nothing"),
    ] {
        let dir = scratch("fails");
        let error = render(synthesiser(keys), &script, &options(), &dir, "de").await;
        let error = error.expect_err(keys);
        assert!(matches!(error, RenderError::Unspoken { .. }), "{keys}: {error}");
        assert!(error.to_string().contains(why), "{keys}: {error}");
        assert!(!dir.join("de/spoken.toml").exists(), "{keys}");
        let _ = std::fs::remove_dir_all(dir);
    }
    let error = render(synthesiser(""), &script, &options(), &scratch("fr"), "fr").await;
    assert_eq!(
        error.expect_err("no French").to_string(),
        "there are no prompts in \"fr\"; there are: de, en, es"
    );
}
