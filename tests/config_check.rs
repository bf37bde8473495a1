//! `floorkeeper check` and what surrounds a configuration: folders, wild input, exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use floorkeeper::cli::check;
use floorkeeper::config::Config;
use proptest::prelude::*;

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn env(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    let pairs: Vec<_> = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    pairs.into_iter()
}

fn checked(path: &Path, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    format!("{:?}", check::run(Some(path), &sets, true))
}

fn code(code: u8) -> String {
    format!("{:?}", ExitCode::from(code))
}

#[test]
fn check_answers_with_its_exit_code() {
    let sample = Path::new("docs/reference/floorkeeper.toml");
    assert_eq!(checked(sample, &[]), code(0));
    assert_eq!(checked(sample, &["turn.budget_sm=1"]), code(2));
    assert_eq!(checked(Path::new("no/such.toml"), &[]), code(2));
    assert_eq!(checked(sample, &["fallback.dir=no/such/folder"]), code(2), "prompts are checked");
    assert_eq!(checked(sample, &["llm.provider=scripted", "llm.rply=1"]), code(2), "own keys too");
}

/// Where the store is told to keep its file.
fn store_path(config: &Config) -> PathBuf {
    config.store.table["path"].as_str().expect("a path").into()
}

#[test]
fn a_path_is_relative_to_the_file_that_names_it() {
    let dir = scratch("paths");
    fs::write(dir.join("keys.txt"), "secret shop\n").expect("written");
    let file = dir.join("floorkeeper.toml");
    let text = "[auth]\nkeys_file = \"keys.txt\"\n[store]\npath = \"calls.db\"\n\
                [models]\ndir = \"/srv/models\"\n";
    fs::write(&file, text).expect("written");
    let config = Config::load(Some(&file), &[], env(&[])).expect("right");
    assert_eq!(config.auth.keys_file, Some(dir.join("keys.txt")));
    assert_eq!(store_path(&config), dir.join("calls.db"));
    assert_eq!(config.models.dir, Path::new("/srv/models"));
    let set = ["store.path=other.db".to_owned()];
    let config = Config::load(Some(&file), &set, env(&[])).expect("right");
    assert_eq!(store_path(&config), Path::new("other.db"));
}

#[test]
fn what_is_not_said_lies_in_the_users_own_folders() {
    let of = |pairs: &[(&str, &str)]| {
        let config = Config::load(None, &[], env(pairs)).expect("right");
        let path = store_path(&config);
        (config.models.dir, path)
    };
    assert_eq!(
        of(&[("HOME", "/home/ada")]),
        (
            "/home/ada/.cache/floorkeeper/models".into(),
            "/home/ada/.local/share/floorkeeper/floorkeeper.db".into()
        )
    );
    assert_eq!(
        of(&[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/c"), ("XDG_DATA_HOME", "relative")]),
        (
            "/c/floorkeeper/models".into(),
            "/home/ada/.local/share/floorkeeper/floorkeeper.db".into()
        )
    );
}

#[test]
fn wrong_keys_are_refused_with_their_line_and_never_shown() {
    let dir = scratch("keys");
    let file = dir.join("keys.txt");
    let load = |keys: &str| {
        fs::write(&file, keys).expect("written");
        let set = [format!("auth.keys_file={}", file.display())];
        Config::load(None, &set, env(&[])).map_err(|errors| errors.to_string())
    };
    let config = load("# comment\n\n  k1 \nk2 shop\n").expect("right");
    assert_eq!(config.auth.keys.map(|keys| keys.len()), Some(2));
    for (keys, problem) in [
        ("", "holds no key"),
        ("# only a comment\n", "holds no key"),
        ("k1\nsecret shop more\n", "keys.txt:2: more than two words in the line"),
        ("secret a\nsecret b\n", "keys.txt:2: this key stands in an earlier line as well"),
    ] {
        let error = load(keys).expect_err(keys);
        assert!(error.contains(problem), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    let dir = scratch("none");
    let file = dir.join("big.toml");
    fs::write(&file, "a".repeat(1024 * 1024 + 1)).expect("written");
    let refused = |path: &Path| {
        Config::load(Some(path), &[], env(&[])).expect_err("no configuration").to_string()
    };
    assert!(refused(&file).contains("a configuration is at most 1 MiB"));
    fs::write(&file, [0xff, 0xfe, 0x00]).expect("written");
    assert!(refused(&file).contains("cannot be read"), "{}", refused(&file));
    assert!(refused(&dir).contains("cannot be read"), "a folder");
    let deep = format!("--set {}=1", vec!["a"; 100_000].join("."));
    assert!(Config::load(None, &[deep], env(&[])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is written there, the answer is a configuration or a list of errors.
    #[test]
    fn no_text_is_too_wild(
        text in "([a-z_]{1,9}(\\.[a-z]{1,5})?[ =\\[\\]{}\",.0-9a-zé\n-]{0,12}\n){0,6}",
        key in "(limits|turn|agent|llm|tool)(\\.[a-z_]{1,9}){0,3}",
        value in "\\PC{0,20}",
    ) {
        let set = [format!("{key}={value}")];
        let found = Config::parse("wild.toml", &text, &set, env(&[("FLOORKEEPER_LISTEN", &value)]));
        if let Err(errors) = found {
            prop_assert!(!errors.0.is_empty());
            for error in errors.0 {
                prop_assert!(!error.problem.is_empty() && !error.right.is_empty());
            }
        }
    }
}
