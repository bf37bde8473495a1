//! A fixture that is written wrong is refused: the file, the key, what is wrong and what would be
//! right.

use floorkeeper::sim::script::Script;

fn refused(rest: &str) -> String {
    let text = format!("about = \"a test\"\n{rest}");
    Script::parse("wrong.toml", &text).expect_err(rest).to_string()
}

#[test]
fn unknown_keys_are_named() {
    let deed = refused("[[caller]]\nat = \"1s\"\nshouts = \"hello\"\n");
    assert!(deed.starts_with("wrong.toml: caller[1]: unknown field `shouts`"), "{deed}");
    let config = refused("[turn]\nbudjet_ms = 10\n");
    assert!(config.contains("turn.budjet_ms") && config.contains("budget_ms"), "{config}");
    let session = refused("[session]\nmanuel = true\n");
    assert!(session.starts_with("wrong.toml: session: unknown field `manuel`"), "{session}");
    let expect = refused("[[expect]]\nnever = \"fence\"\nbefore = \"prompt\"\n");
    assert!(expect.starts_with("wrong.toml: expect[1]: unknown field `before`"), "{expect}");
}

#[test]
fn a_deed_has_one_time_and_one_content() {
    let none = refused("[[caller]]\nsays = \"hello\"\n");
    assert_eq!(none, "wrong.toml: caller[1]: it has no time; at or after");
    let both = refused("[[caller]]\nat = \"1s\"\nafter = \"fence\"\nsays = \"hello\"\n");
    assert_eq!(both, "wrong.toml: caller[1]: it has both at and after; one of them");
    let two = refused("[[caller]]\nat = \"1s\"\nsays = \"hello\"\nhangs_up = true\n");
    assert!(two.starts_with("wrong.toml: caller[1]: it is more than one deed; one of"), "{two}");
    let nothing = refused("[[caller]]\nat = \"1s\"\n");
    assert!(nothing.contains("it does not say what the caller does"), "{nothing}");
    let how = refused("[[caller]]\nat = \"1s\"\nresponds = \"loudly\"\n");
    assert!(how.starts_with("wrong.toml: caller[1].responds: it is no way to ask"), "{how}");
}

#[test]
fn impossible_times_are_refused() {
    for time in ["soon", "-1s", "1m", "2h", "4000s", ""] {
        let wrong = refused(&format!("[[caller]]\nat = \"{time}\"\nhangs_up = true\n"));
        let start =
            format!("wrong.toml: caller[1].at: \"{time}\" is no time; a time up to an hour");
        assert!(wrong.starts_with(&start), "{wrong}");
    }
    let late = refused("ends_by = \"5s\"\n[[caller]]\nat = \"6s\"\nhangs_up = true\n");
    assert!(late.contains("caller[1]: 6s is behind the fixture's end (5s)"), "{late}");
}

#[test]
fn deeds_that_wait_for_each_other_are_refused() {
    let itself = refused("[[caller]]\nafter = \"caller.noise + 1s\"\nnoise = \"200ms\"\n");
    assert!(itself.contains("caller[1]: \"caller.noise\" is only done behind this very deed"));
    let each_other = refused(
        "[[caller]]\nafter = \"caller.cancels\"\nhangs_up = true\n\
         [[caller]]\nafter = \"caller.hangs_up\"\ncancels = true\n",
    );
    assert!(each_other.contains("is only done behind this very deed"), "{each_other}");
}

#[test]
fn what_never_happens_fails_the_fixture() {
    let text = "about = \"a test\"\n[[caller]]\nafter = \"tool.start + 1s\"\nhangs_up = true\n\
                [[expect]]\nnever = \"agent.audio\"\nafter = \"tool.start\"\n\
                [[expect]]\nasked = { nth = 3 }\n";
    let script = Script::parse("never.toml", text).expect("it is written well");
    let fallback = floorkeeper::config::Script::read(None).expect("the built-in prompts");
    let outcome = floorkeeper::sim::world::run(&script, std::sync::Arc::new(fallback))
        .expect("its providers can be made");
    let problems = outcome.problems.join("\n");
    assert!(problems.contains("caller[1]: \"tool.start\" never happened"), "{problems}");
    assert!(problems.contains("never agent.audio after tool.start: no tool.start came"));
    assert!(problems.contains("asked: there were 0 requests, not 3"), "{problems}");
}
