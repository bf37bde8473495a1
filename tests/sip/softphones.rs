//! Real software that others have written: sipp's own caller, and the softphone baresip. Where
//! they are not installed (`.ci/setup --tests` does) this says so and tests nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::certificates::Files;
use crate::conversation::GREETS;
use crate::phone::serve;
use crate::rig::{LIMIT, Rig, eventually};
use crate::tls::serve_tls;

fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join(program).exists());
    if !found {
        eprintln!("{program} is not installed: nothing is tested");
    }
    found
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

async fn sipp(rig: &Rig, transport: &str) {
    let server = rig.service().sip().unwrap().address().to_string();
    let folder = folder(&format!("sipp-{transport}"));
    let mut command = Command::new("sipp");
    command.args(["-sn", "uac", "-t", transport, "-i", "127.0.0.1", "-m", "10", "-r", "20"]);
    command.args(["-d", "200", "-timeout", "15", "-timeout_error", "-nostdin", &server]);
    let ran = command.current_dir(&folder).stdin(Stdio::null()).kill_on_drop(true).output();
    let ran = timeout(LIMIT, ran).await.expect("in time").unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

/// Ten calls of sipp's own scenario over UDP and ten over TCP: INVITE, 100, 200, ACK, BYE, 200.
#[tokio::test]
async fn sipp_calls_by_both_ways() {
    if !installed("sipp") {
        return;
    }
    let rig = serve(&[GREETS]).await;
    sipp(&rig, "u1").await;
    sipp(&rig, "t1").await;
    eventually("twenty calls are over", || {
        let ended = rig.service().registry.list();
        let ended = ended.len();
        if ended == 20 && rig.service().registry.live_count() == 0 {
            Ok(())
        } else {
            Err(format!("{ended}"))
        }
    })
    .await;
    rig.quiet().await;
}

/// A caller's second of noise between silences, as a file that baresip plays.
fn said(path: &Path) {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(path, spec).unwrap();
    for n in 0..8_000 * 30 {
        let speaks = (12_000..20_000).contains(&n);
        let wave = if n % 16 < 8 { 8_000_i16 } else { -8_000 };
        file.write_sample(if speaks { wave } else { 0 }).unwrap();
    }
    file.finalize().unwrap();
}

/// baresip dials, is greeted, speaks, is answered, and hangs up.
#[tokio::test]
async fn baresip_is_greeted_heard_and_answered() {
    if !installed("baresip") {
        return;
    }
    let rig = serve(&[GREETS]).await;
    let server = rig.service().sip().unwrap().address();
    baresip(&rig, "baresip", "", &format!("sip:agent@{server}")).await;
    rig.quiet().await;
}

/// Issue 7.2: the same over TLS, with nothing but SRTP.
#[tokio::test]
async fn baresip_speaks_encrypted_over_tls() {
    if !installed("baresip") {
        return;
    }
    let (files, _) = Files::new("baresip");
    let (rig, at) = serve_tls(&files, &["sip.srtp=\"required\"", GREETS]).await;
    let secure = ";mediaenc=srtp-mand";
    baresip(&rig, "baresip-tls", secure, &format!("sip:agent@{at};transport=tls")).await;
    rig.quiet().await;
}

async fn baresip(rig: &Rig, name: &str, account: &str, uri: &str) {
    const MODULES: &str = "/usr/lib/baresip/modules";
    let folder = folder(name);
    let shown = folder.display();
    said(&folder.join("said.wav"));
    let config = format!(
        "module_path {MODULES}\nnet_interface 127.0.0.1\nsip_listen 127.0.0.1:0\n\
         audio_source aufile,{shown}/said.wav\naudio_player aufile,{shown}/player.wav\n\
         module srtp.so\nmodule account.so\nmodule g711.so\nmodule aufile.so\nmodule sndfile.so\n\
         module menu.so\nsnd_path {shown}\n"
    );
    std::fs::write(folder.join("config"), config).unwrap();
    std::fs::write(folder.join("accounts"), format!("<sip:ada@127.0.0.1>;regint=0{account}\n"))
        .unwrap();
    std::fs::write(folder.join("contacts"), "").unwrap();
    let dial = format!("/dial {uri}");
    let mut command = Command::new("baresip");
    command.arg("-f").arg(&folder).args(["-t", "60", "-e", &dial]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let phone = command.spawn().unwrap();
    let pid = phone.id().expect("it runs") as i32;
    let shown = || rig.service().registry.find("call-1").map(|call| call.show().to_string());
    eventually("the caller is answered", || match shown() {
        Some(shown) if shown.contains("-> turn-1 answered") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // SAFETY: a signal to a process of ours that nobody has waited for yet. It hangs up.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let ran = timeout(LIMIT, phone.wait_with_output()).await.expect("in time").unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(output.contains("Call established"), "{output}");
    assert!(rig.model.asked("What happened then?").is_some(), "{output}");
    let heard = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let heard = heard.into_iter().find(|path| path.display().to_string().ends_with("-dec.wav"));
    let sounds = hound::WavReader::open(heard.expect("what was heard")).unwrap();
    let samples: Vec<i16> = sounds.into_samples().map(Result::unwrap).collect();
    let is_loud = |frame: &&[i16]| frame.iter().any(|sample| sample.unsigned_abs() > 200);
    let loud_ms = samples.chunks(160).filter(is_loud).count() * 20;
    assert!(loud_ms >= 900, "greeting and answer are 1.2 s, {loud_ms} ms of it loud");
}
