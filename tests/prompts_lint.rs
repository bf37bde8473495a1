//! Prompts that would lie, and sounds that are not there, are found before a caller hears them.

use std::fs;
use std::path::{Path, PathBuf};

use floorkeeper::config::{Fallback, Script};

/// A folder like the built-in one, to be spoiled.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prompts-{name}"));
        let _ = fs::remove_dir_all(&path);
        for (folder, ending) in [("prompts", "toml"), ("audio/en", "wav")] {
            fs::create_dir_all(path.join(folder)).expect("a folder");
            for entry in fs::read_dir(Path::new("fallback").join(folder)).expect("the folder") {
                let from = entry.expect("an entry").path();
                if from.extension().is_some_and(|have| have == ending) {
                    let to = path.join(folder).join(from.file_name().expect("a name"));
                    fs::copy(&from, to).expect("a copy");
                }
            }
        }
        fs::copy("fallback/ladder.toml", path.join("ladder.toml")).expect("a copy");
        Folder(path)
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.0.join(file);
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.contains(from), "{file} holds {from}");
        fs::write(path, text.replacen(from, to, 1)).expect("written");
    }

    /// What reading and linting the texts says.
    fn found(&self) -> String {
        let linted = Script::read(Some(&self.0)).and_then(|script| script.lint());
        linted.expect_err("something is wrong").to_string()
    }

    /// What loading everything says.
    fn load_error(&self) -> String {
        Fallback::load(Some(&self.0)).expect_err("something is wrong").to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_built_in_prompts_are_true() {
    Script::read(None).expect("texts").lint().expect("true");
    let folder = Folder::new("as-they-are");
    Fallback::load(Some(&folder.0)).expect("the same in a folder of one's own");
}

#[test]
fn a_promise_without_its_claim_is_found() {
    for (locale, id, from, to, says, lacks) in [
        (
            "en",
            "retry_busy",
            "You can ask again.",
            "We will call you back.",
            "call you back",
            "callback.committed",
        ),
        (
            "en",
            "retry_busy",
            "You can ask again.",
            "I am connecting you.",
            "connecting you",
            "handoff.acknowledged",
        ),
        (
            "en",
            "retry_busy",
            "You can ask again.",
            "One moment please.",
            "one moment",
            "original.queued",
        ),
        (
            "de",
            "retry_busy",
            "Sie können noch einmal fragen.",
            "Wir rufen Sie zurück.",
            "rufen sie zurück",
            "callback.committed",
        ),
        (
            "es",
            "retry_busy",
            "Puede preguntar otra vez.",
            "Le estoy pasando.",
            "le estoy pasando",
            "handoff.acknowledged",
        ),
    ] {
        let folder = Folder::new(&format!("promise-{locale}-{}", lacks.replace('.', "-")));
        folder.replace(&format!("prompts/{locale}.toml"), from, to);
        let found = folder.found();
        let expected = format!(
            "prompts/{locale}.toml: prompt.{id}: it says \"{says}\" and does not claim {lacks}; "
        );
        assert!(found.contains(&expected), "{found}");
    }
}

#[test]
fn what_nobody_can_know_is_found() {
    let folder = Folder::new("never");
    folder.replace("prompts/en.toml", "waiting for a free place", "waiting two more minutes");
    let found = folder.found();
    assert!(found.contains("prompt.wait_queued: it says \"minutes\", which nobody can know"));
}

#[test]
fn a_promise_that_claims_itself_still_cannot_be_chosen() {
    // The text is honest about its claim; the engine then has nothing true to say there.
    let folder = Folder::new("honest");
    folder.replace(
        "prompts/en.toml",
        "claims = [\"nothing.arranged\", \"call.ends\"]",
        "claims = [\"callback.committed\", \"call.ends\"]",
    );
    assert!(folder.found().contains("no goodbye is true"), "{}", folder.found());
}

#[test]
fn a_locale_that_lacks_or_changes_a_prompt_is_found() {
    let folder = Folder::new("lacks");
    folder.replace("prompts/de.toml", "[prompt.retry_late]", "[prompt.retry_latte]");
    let found = folder.found();
    assert!(found.contains("prompts/de.toml: prompt.retry_late: this locale lacks it"), "{found}");
    assert!(found.contains("prompt.retry_latte: the default locale lacks it"), "{found}");
    let folder = Folder::new("differs");
    folder.replace(
        "prompts/es.toml",
        "claims = [\"budget.spent\", \"call.continues\"]",
        "claims = [\"call.continues\"]",
    );
    let found = folder.found();
    assert!(found.contains("prompts/es.toml: prompt.retry_late: its claims differ"), "{found}");
}

#[test]
fn a_cause_without_a_prompt_is_found() {
    let folder = Folder::new("no-rule");
    folder.replace("ladder.toml", "causes = [\"budget_spent\"]", "causes = [\"queued\"]");
    let found = folder.found();
    assert!(found.contains("budget_spent at no stage: no rule is for it"), "{found}");
    let folder = Folder::new("no-prompt");
    folder.replace("ladder.toml", "say = [\"retry_late\"]", "say = [\"retry_later\"]");
    let found = folder.found();
    assert!(found.contains("says \"retry_later\", which is no prompt"), "{found}");
}

#[test]
fn broken_files_are_refused_with_their_place() {
    for (file, from, to, error) in [
        ("ladder.toml", "retry_max = 2", "retry_max = \"2\"", "ladder.toml:"),
        ("ladder.toml", "rung = \"wait\"", "rung = \"weight\"", "there is no rung \"weight\""),
        ("ladder.toml", "[\"budget_spent\"]", "[\"budget\"]", "there is no cause \"budget\""),
        ("ladder.toml", "stages = [\"tool\"]", "stages = [\"tol\"]", "there is no stage \"tol\""),
        (
            "prompts/en.toml",
            "\"budget.spent\"",
            "\"budget.spend\"",
            "did you mean \"budget.spent\"?",
        ),
        ("prompts/en.toml", "interruptible", "interuptible", "prompts/en.toml:"),
    ] {
        let folder = Folder::new("broken");
        folder.replace(file, from, to);
        let found = folder.found();
        assert!(found.contains(error), "{to}: {found}");
    }
    let missing = Script::read(Some(Path::new("no/such/folder"))).expect_err("no folder");
    assert!(missing.to_string().starts_with("no/such/folder: cannot be read"), "{missing}");
}

#[test]
fn a_missing_or_empty_sound_stops_the_start() {
    let folder = Folder::new("empty-sound");
    fs::write(folder.0.join("audio/en/retry_busy.wav"), "").expect("written");
    let error = folder.load_error();
    assert!(error.contains("retry_busy.wav: the file is empty; run `floorkeeper prompts render`"));
    // Other words than the built-in sound speaks, and no sound of their own.
    let folder = Folder::new("no-sound");
    folder.replace("prompts/en.toml", "You can ask again.", "You may ask again.");
    fs::remove_file(folder.0.join("audio/en/retry_busy.wav")).expect("removed");
    let error = folder.load_error();
    assert!(
        error.contains("audio/en/retry_busy.wav: there is no such sound; run `floor"),
        "{error}"
    );
}

#[test]
fn a_sound_of_other_words_is_not_taken() {
    let folder = Folder::new("stale-sound");
    let spoken = "retry_busy = \"We will call you back.\"\n";
    fs::write(folder.0.join("audio/en/spoken.toml"), spoken).expect("written");
    folder.replace("prompts/en.toml", "You can ask again.", "You may ask again.");
    let error = folder.load_error();
    assert!(error.contains("audio/en/retry_busy.wav: there is no such sound"), "{error}");
}
