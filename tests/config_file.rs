//! The sample configuration, and that every key means something.

use std::collections::BTreeSet;
use std::path::Path;

use floorkeeper::config::{Config, DEFAULT_AGENT, Source};
use floorkeeper::id::Stage;

const SAMPLE: &str = "docs/reference/floorkeeper.toml";

fn load(sets: &[&str]) -> Config {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    Config::load(None, &sets, home()).unwrap_or_else(|errors| panic!("{sets:?}: {errors}"))
}

fn home() -> impl Iterator<Item = (String, String)> {
    std::iter::once(("HOME".to_owned(), "/home/ada".to_owned()))
}

#[test]
fn the_sample_means_the_defaults() {
    let sample = Config::load(Some(Path::new(SAMPLE)), &[], home()).expect("the sample is right");
    assert_eq!(sample, load(&[]));
    assert_eq!(sample.default_agent().name, DEFAULT_AGENT);
}

/// A tool takes from `[limits.tools]` what it does not say: its keys stand in the sample only as an
/// example.
fn is_of_one_tool(key: &str) -> bool {
    key.strip_prefix("limits.tools.").is_some_and(|rest| rest.contains('.'))
}

#[test]
fn the_sample_contains_every_key() {
    let sample = Config::load(Some(Path::new(SAMPLE)), &[], home()).expect("the sample is right");
    let missing: BTreeSet<&str> = sample
        .origins
        .keys()
        .filter(|key| sample.origins.source(key) != Some(Source::Config))
        .filter(|key| !is_of_one_tool(key))
        .collect();
    assert_eq!(missing, BTreeSet::new(), "not in {SAMPLE}");
}

/// It names something that has to be described elsewhere: below it is tried with both.
fn is_of_another(key: &str) -> bool {
    let alone = [
        "agent.default.class",
        "sip.tls_listen",
        "handoff.bridge_to",
        "handoff.twilio_to",
        "handoff.dialplan",
    ];
    alone.contains(&key) || key.starts_with("tls.")
}

/// A certificate is nothing without its key.
#[test]
fn a_certificate_and_its_key_are_named_together() {
    let both = load(&["tls.cert_file=voice.pem", "tls.key_file=voice.key"]).tls.expect("both");
    assert_eq!((both.cert_file, both.key_file), ("voice.pem".into(), "voice.key".into()));
    for (said, missing) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
        let sets = [format!("tls.{said}=voice.pem")];
        let wrong = Config::load(None, &sets, home()).unwrap_err().to_string();
        assert!(wrong.contains(&format!("tls.{missing} is not said")), "{wrong}");
    }
}

/// SIP by TLS shows the certificate that HTTP shows; sound is heard at one address.
#[test]
fn sip_over_tls_is_nothing_without_a_certificate() {
    let (cert, key) = ("tls.cert_file=voice.pem", "tls.key_file=voice.key");
    let secure = load(&[cert, key, "sip.tls_listen=127.0.0.1:5061"]).sip.tls_listen;
    assert_eq!(secure, "127.0.0.1:5061".parse().ok());
}

/// Whom Twilio rings needs its API, and to be somebody who may be rung (issue 7.5).
#[test]
fn a_desk_that_twilio_rings_is_nothing_without_its_account() {
    let account =
        ["twilio.account_sid=AC1", "twilio.auth_token_env=TOKEN", "outbound.from=\"+15550\""];
    let public = "public.url=\"https://voice.example.com\"";
    let [sid, token, from] = account;
    let desk = "handoff.twilio_to=\"+15550100\"";
    let to = load(&[sid, token, from, public, desk]).outbound.twilio_to;
    assert_eq!(to.as_deref(), Some("+15550100"));
    for (sets, key) in [
        (&[desk, token, from, public][..], "twilio.account_sid"),
        (&[desk, sid, from, public], "twilio.auth_token_env"),
        (&[desk, sid, token, public], "outbound.from"),
        (&[desk, sid, token, from], "public.url"),
        (&[desk, sid, token, from, public, "outbound.allow=[\"+1666\"]"], "handoff.twilio_to"),
        (&[sid, token, from, public, "handoff.twilio_to=\"+1900555010\""], "handoff.twilio_to"),
        (&[sid, token, from, public, "handoff.twilio_to=\"+1\""], "handoff.twilio_to"),
    ] {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let wrong = Config::load(None, &sets, home()).unwrap_err().to_string();
        assert!(wrong.contains(key), "{sets:?}: {wrong}");
    }
}

/// Issue 7.1: a dialplan goes on when Asterisk can be told to.
#[test]
fn a_dialplan_is_nothing_without_a_way_to_tell_it() {
    let (url, user) = ("asterisk.ari_url=\"http://127.0.0.1:8088/ari\"", "asterisk.ari_user=us");
    let (password, word) = ("asterisk.ari_password_env=SECRET", "handoff.dialplan=human");
    let ari = load(&[url, user, password, word]).asterisk.ari;
    assert_eq!((ari.dialplan.as_deref(), ari.url.is_some()), (Some("human"), true));
    for (sets, key) in [
        (&[word, user, password][..], "asterisk.ari_url"),
        (&[word, url, password], "asterisk.ari_user"),
        (&[word, url, user], "asterisk.ari_password_env"),
        (&[url, user, password, "handoff.dialplan=\"a b\""], "handoff.dialplan"),
        (&["asterisk.ari_url=\"http://192.0.2.7/ari\""], "asterisk.ari_url"),
    ] {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let wrong = Config::load(None, &sets, home()).unwrap_err().to_string();
        assert!(wrong.contains(key), "{sets:?}: {wrong}");
    }
}

/// C-011, A-136: classes are described once, agents say whose their calls are, gates keep units for
/// them.
#[test]
fn classes_are_promised_units_and_agents_name_them() {
    let config = load(&[
        "class.vip.rank=50",
        "class.vip.reserved.call=10",
        "class.batch.rank=200",
        "agent.default.class=vip",
        "agent.nightly.class=batch",
        "limits.call.aging_ms=3000",
    ]);
    let limits = config.gate_limits(Stage::Call).meant();
    let rules: Vec<(String, u32, u8)> = limits
        .classes
        .iter()
        .map(|rule| (config.classes.name(rule.class), rule.reserved, rule.rank))
        .collect();
    assert_eq!(rules, [("batch".to_owned(), 0, 200), ("vip".to_owned(), 10, 50)]);
    assert_eq!(limits.aging_ms, Some(3_000));
    assert_eq!(config.gate_limits(Stage::Model).meant().classes[1].reserved, 0);
    let class = |agent: &str| config.agent(agent).unwrap().class.clone().unwrap();
    assert_eq!((class("default"), class("nightly")), ("vip".into(), "batch".into()));
    for (sets, key, right) in [
        (&["agent.default.class=vipp", "class.vip.rank=1"][..], "agent.default.class", "vip"),
        (&["agent.default.class=gold"], "agent.default.class", "[class.gold]"),
        (&["class.default.rank=1"], "class.default", "taken"),
        (&["class.vip.rank=300"], "class.vip.rank", "255"),
        (&["class.vip.reserved.modell=3"], "class.vip.reserved.modell", "model"),
        (&["class.vip.reserved.call=900"], "class.vip.reserved.call", "limits.call.slots"),
    ] {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let wrong = Config::load(None, &sets, home()).unwrap_err().to_string();
        assert!(wrong.contains(key) && wrong.contains(right), "{sets:?}: {wrong}");
    }
}

/// A value that is right for the key and is not its default.
fn another(config: &Config, key: &str) -> String {
    let words = [
        ("listen", "127.0.0.1:9"),
        ("public.url", "https://voice.example.com"),
        ("webrtc.listen", "127.0.0.1:9"),
        ("webrtc.public_addresses", "[\"203.0.113.7\"]"),
        ("sip.listen", "127.0.0.1:5060"),
        ("sip.public_address", "203.0.113.7"),
        ("sip.peers", "[\"192.0.2.0/24\"]"),
        ("sip.users_file", "tests/data/sip-users.txt"),
        ("sip.rtp_ports", "16384-32767"),
        ("sip.srtp", "required"),
        ("sip.codecs", "[\"pcma\", \"g722\"]"),
        ("sip.tenant", "trunk"),
        ("asterisk.audiosocket_listen", "127.0.0.1:9092"),
        ("asterisk.audiosocket_peers", "[\"192.0.2.0/24\"]"),
        ("asterisk.audiosocket_tenant", "trunk"),
        ("asterisk.ari_url", "http://127.0.0.1:8088/ari"),
        ("sip.trunk", "sip.trunk.example"),
        ("outbound.allow", "[\"+1555\"]"),
        ("twilio.account_sid", "AC1"),
        ("twilio.api_url", "https://api.example"),
        ("twilio.refuse", "reject"),
        ("outbound.deny", "[\"sip:*@desk.example\"]"),
        ("auth.keys_file", "tests/data/keys.txt"),
        ("auth.origins", "[\"https://shop.example\"]"),
        ("turn.end", "silence"),
        ("turn.barge_in.policy", "duration"),
        ("callback.offer", "never"),
        ("store.provider", "postgres"),
        ("handoff.offer", "always"),
        ("callback.dialler", "stub"),
        ("callback.stub_outcome", "failed"),
        ("callback.webhook_url", "https://desk.example/callbacks"),
        ("handoff.refer_to", "sip:desk@192.0.2.9"),
        ("handoff.webhook_url", "https://desk.example/handoffs"),
        ("log.format", "json"),
        ("log.level", "debug"),
        ("vad.detector", "earshot"),
        ("asr.provider", "scripted"),
        ("llm.provider", "scripted"),
        ("tts.provider", "scripted"),
        ("tool.book.provider", "scripted"),
        ("tool.find_slot.provider", "scripted"),
        ("agent.default.numbers", "[\"+15550100\"]"),
        ("agent.default.tools", "[\"book\"]"),
        ("agent.default.language", "de"),
        ("agent.default.limits.max_tokens", "100"),
        ("admission.upstream_pressure", "full"),
    ];
    if let Some((_, word)) = words.iter().find(|(known, _)| *known == key) {
        return (*word).to_owned();
    }
    match key.rsplit('.').next().unwrap_or_default() {
        "mode" => return "observe".to_owned(),
        "overflow" => return "shed".to_owned(),
        "fairness" => return "fair".to_owned(),
        "queue_bytes" | "message_max" | "log_file_max" => return "1MiB".to_owned(),
        _ => {}
    }
    match &config.origins.get(key).expect("a key").value {
        toml::Value::Integer(100) => "99".to_owned(),
        toml::Value::Integer(number) => (number + 1).to_string(),
        toml::Value::Boolean(flag) => (!flag).to_string(),
        toml::Value::String(_) => "something_else".to_owned(),
        toml::Value::Array(_) => "[\"something\"]".to_owned(),
        other => panic!("{key}: no other value is known for {other}"),
    }
}

#[test]
fn every_key_has_an_effect() {
    let defaults = load(&[]);
    let keys: Vec<&str> = defaults.origins.keys().filter(|key| !is_of_another(key)).collect();
    assert!(keys.len() > 100, "{} keys", keys.len());
    for key in keys {
        let set = format!("{key}={}", another(&defaults, key));
        let changed = load(&[&set]);
        assert_ne!(changed, defaults, "--set {set} changes nothing");
        assert_eq!(changed.origins.source(key), Some(Source::Set), "{key}");
    }
}

#[test]
fn every_key_can_be_said_in_the_environment() {
    let defaults = load(&[]);
    for key in defaults.origins.keys().filter(|key| !is_of_another(key)) {
        let name = format!("FLOORKEEPER_{}", key.replace(['.', '-'], "_").to_uppercase());
        let env = home().chain([(name.clone(), another(&defaults, key))]);
        let changed = Config::load(None, &[], env).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_ne!(changed, defaults, "{name} changes nothing");
        assert_eq!(changed.origins.source(key), Some(Source::Env), "{key}");
        let about_it = changed.warnings.iter().find(|warning| warning.contains("environment"));
        assert_eq!(about_it, None, "{name}");
    }
}

/// Whoever is rung to take a caller is somebody who may be rung, and the only way to do it (issue
/// 7.3 and 7.5).
#[test]
fn a_desk_that_cannot_be_rung_is_refused() {
    let sip = "[sip]\nlisten = \"127.0.0.1:5060\"\n[outbound]\nfrom = \"+15550100\"\n";
    for (text, error) in [
        (
            "[handoff]\nbridge_to = \"sip:desk@192.0.2.9\"\n[outbound]\nfrom = \"+15550100\"\n"
                .to_owned(),
            "test.toml:2: handoff.bridge_to: somebody is rung, and no SIP is spoken here; say in \
             sip.listen where it is",
        ),
        (
            format!("[handoff]\nbridge_to = \"desk\"\n{sip}"),
            "test.toml:2: handoff.bridge_to: \"desk\" is no SIP address and no number; write \
             \"sip:desk@192.0.2.9\" or \"+15550100\", or \"\" for people at /ops",
        ),
        (
            format!("[handoff]\nbridge_to = \"sip:desk@192.0.2.9\"\n{sip}allow = [\"+1555\"]\n"),
            "test.toml:2: handoff.bridge_to: \"sip:desk@192.0.2.9\" may not be dialled \
             (number_not_allowed); name it in outbound.allow, and not in outbound.deny",
        ),
        (
            format!("[handoff]\nbridge_to = \"sip:911@192.0.2.9\"\n{sip}"),
            "test.toml:2: handoff.bridge_to: \"sip:911@192.0.2.9\" may not be dialled \
             (emergency_number); name it in outbound.allow, and not in outbound.deny",
        ),
        (
            format!("[handoff]\nbridge_to = \"+15550142\"\n{sip}"),
            "test.toml:2: handoff.bridge_to: a number is rung through a trunk, and sip.trunk names \
             none; name a trunk, or write \"sip:desk@192.0.2.9\"",
        ),
        (
            format!(
                "[handoff]\nbridge_to = \"sip:desk@192.0.2.9\"\nrefer_to = \"sip:a@192.0.2.9\"\n{sip}"
            ),
            "test.toml:2: handoff.bridge_to: callers are sent to handoff.refer_to already; name \
             one of the two",
        ),
    ] {
        let wrong = Config::parse("test.toml", &text, &[], home()).unwrap_err();
        assert_eq!(wrong.to_string(), error, "{text}");
    }
}
