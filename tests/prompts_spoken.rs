//! The shipped sounds say what their prompts say: the recogniser understands them.

use std::path::PathBuf;

use floorkeeper::cli::wav;
use floorkeeper::cli::wer::word_errors;
use floorkeeper::config::Fallback;
use floorkeeper::provider::asr::{ASRS, AsrInput, AsrOptions};
use floorkeeper::provider::{Cancel, Surroundings, find, models};
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_sounds_are_understood() {
    let dir =
        std::env::var_os("FLOORKEEPER_MODELS_DIR").map_or_else(models::default_dir, PathBuf::from);
    let around = Surroundings { models_dir: dir.clone(), language: "en".into() };
    let entry = find(ASRS, "asr.provider", "moonshine").expect("it is in the table");
    if !models::look(&dir).complete() {
        eprintln!("SKIP the_shipped_sounds_are_understood: no models in {}", dir.display());
        return;
    }
    let asr = (entry.build)(&toml::Table::new(), &around).expect("it can be had");
    let fallback = Fallback::load(None).expect("right");
    let (mut wrong, mut words) = (0, 0);
    for (id, prompt) in &fallback.script.prompts.default_book().expect("a book").prompts {
        let sound = fallback.sound("en", id).expect("sound");
        let mut samples = wav::at_rate(&sound, 16_000).expect("a rate");
        samples.extend([0; 8_000]);
        let (tell, input) = mpsc::channel(4);
        let (out, mut heard) = mpsc::channel(4);
        let run = std::sync::Arc::clone(&asr).run(AsrOptions::default(), input, out, Cancel::new());
        let run = tokio::spawn(run);
        let told = [
            AsrInput::Audio(samples),
            AsrInput::Decode { seq: 1, is_final: true },
            AsrInput::Close,
        ];
        for input in told {
            tell.send(input).await.expect("it listens");
        }
        let said = heard.recv().await.expect("words").transcript.text;
        run.await.expect("it ended");
        let (errors, count) = word_errors(&prompt.text, &said);
        if errors > 0 {
            println!("{id}: \"{}\" was heard as \"{said}\"", prompt.text);
        }
        (wrong, words) = (wrong + errors, words + count);
    }
    println!("{wrong} of {words} words wrong");
    assert!(wrong * 10 <= words, "{wrong} of {words} words wrong");
}
