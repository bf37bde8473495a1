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

/// What baresip speaks: its name of it, the module, and the file's rate and channels.
type Spoken = (&'static str, &'static str, u32, u16);

const G711: Spoken = ("PCMU/8000/1", "g711", 8_000, 1);
const G722: Spoken = ("G722/16000/1", "g722", 16_000, 1);
const OPUS: Spoken = ("opus/48000/2", "opus", 48_000, 2);

/// A caller's second of noise between silences, as a file that baresip plays.
fn said(path: &Path, sample_rate: u32, channels: u16) {
    let spec = hound::WavSpec {
        channels,
        sample_rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(path, spec).unwrap();
    let half = sample_rate / 1_000;
    for n in 0..sample_rate * 30 {
        let speaks = (sample_rate * 3 / 2..sample_rate * 5 / 2).contains(&n);
        let wave = if n % (2 * half) < half { 8_000_i16 } else { -8_000 };
        for _ in 0..channels {
            file.write_sample(if speaks { wave } else { 0 }).unwrap();
        }
    }
    file.finalize().unwrap();
}

/// baresip dials, is greeted, speaks, is answered, and hangs up.
async fn baresip_converses(spoken: Spoken) {
    if !installed("baresip") {
        return;
    }
    let rig = serve(&[GREETS]).await;
    let server = rig.service().sip().unwrap().address();
    let name = format!("baresip-{}", spoken.1);
    baresip(&rig, &name, "", &format!("sip:agent@{server}"), spoken).await;
    rig.quiet().await;
}

/// Issue 7.2: by G.722.
#[tokio::test]
async fn baresip_is_greeted_heard_and_answered() {
    baresip_converses(G722).await;
}

/// Issue 7.2: by Opus.
#[tokio::test]
async fn baresip_converses_by_opus() {
    baresip_converses(OPUS).await;
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
    baresip(&rig, "baresip-tls", secure, &format!("sip:agent@{at};transport=tls"), G711).await;
    rig.quiet().await;
}

async fn baresip(rig: &Rig, name: &str, account: &str, uri: &str, spoken: Spoken) {
    const MODULES: &str = "/usr/lib/baresip/modules";
    let folder = folder(name);
    let shown = folder.display();
    let (codec, module, rate_hz, channels) = spoken;
    said(&folder.join("said.wav"), rate_hz, channels);
    let config = format!(
        "module_path {MODULES}\nnet_interface 127.0.0.1\nsip_listen 127.0.0.1:0\n\
         audio_source aufile,{shown}/said.wav\naudio_player aufile,{shown}/player.wav\n\
         module srtp.so\nmodule account.so\nmodule {module}.so\nmodule aufile.so\nmodule sndfile.so\n\
         module menu.so\nsnd_path {shown}\n"
    );
    std::fs::write(folder.join("config"), config).unwrap();
    std::fs::write(
        folder.join("accounts"),
        format!("<sip:ada@127.0.0.1>;regint=0;audio_codecs={codec}{account}\n"),
    )
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
    let frame = usize::from(channels) * rate_hz as usize / 50;
    let loud_ms = samples.chunks(frame).filter(is_loud).count() * 20;
    assert!(loud_ms >= 900, "greeting and answer are 1.2 s, {loud_ms} ms of it loud");
}
