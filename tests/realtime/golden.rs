//! Golden scripts: what client and call say, and every event that comes of it.

use std::path::Path;

use crate::{order, script};

/// Runs one script of fixtures/realtime, compares it with itself and checks the order of its
/// events.
fn golden(name: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/realtime/{name}.script"));
    let script = std::fs::read_to_string(&path).expect("the script is there");
    let page = script::run(&script);
    let mut checker = order::OrderChecker::default();
    for event in page.lines().filter_map(|line| line.strip_prefix("< ")) {
        let event = serde_json::from_str(event).expect("an event is JSON");
        if let Err(why) = checker.see(&event) {
            panic!("{name}: {why}");
        }
    }
    checker.finish().expect(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).expect("the script can be written");
    } else if page != script {
        let differs = page.lines().zip(script.lines()).find(|(is, was)| is != was);
        panic!("{name} differs (BLESS=1 to accept):\n{differs:#?}\n--- now ---\n{page}");
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { golden(stringify!($name)); })*

        #[test]
        fn every_script_is_run() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/realtime");
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("a file").path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                assert!([$(stringify!($name)),*].contains(&name.as_str()), "{name} is not run");
            }
        }
    };
}

scripts! {
    spoken_turn,
    text_turn,
    function_call,
    cancel_in_mid_answer,
    barge_in,
    truncate,
    out_of_band,
    errors,
    strict,
    manual_commit,
    session_update,
    items,
    transcription_session,
    failed_answer,
    extra_events,
    phone_sound,
    announcement,
    drained,
}
