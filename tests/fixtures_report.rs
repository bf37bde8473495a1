//! `fixture run --report`: one page with every call as a picture, whatever came of it.

use std::process::Command;

#[test]
fn every_fixture_is_drawn_on_one_page_that_needs_nothing_else() {
    let page = std::env::temp_dir().join(format!("floorkeeper-report-{}.html", std::process::id()));
    let run = Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
        .args(["fixture", "run", "fixtures/calls", "--report"])
        .arg(&page)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    let fixtures = std::fs::read_dir("fixtures/calls").unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|e| e == "toml")
    });
    assert_eq!(text.matches("<svg ").count(), fixtures.count());
    for foreign in ["http://", "https://", "src=", "<script", "@import", "NaN"] {
        assert!(!text.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_told() {
    let run = Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
        .args(["fixture", "run", "fixtures/calls/plain_turn.toml", "--report", "/nowhere/out.html"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(told.contains("/nowhere/out.html"), "{told}");
}
