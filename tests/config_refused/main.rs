//! Wrong configurations: each is refused with the place, the key, the problem and what would be
//! right.

mod phones;

use floorkeeper::config::{Config, ConfigErrors, Slots, Source};

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse("test.toml", text, &[], std::iter::empty())
}

fn with_sets(text: &str, sets: &[&str]) -> Result<Config, ConfigErrors> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    Config::parse("test.toml", text, &sets, std::iter::empty())
}

fn with_env(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Config::parse("test.toml", text, &[], env)
}

/// The text is refused with exactly this error.
fn refused(text: &str, error: &str) {
    let errors = parse(text).expect_err(text);
    assert_eq!(errors.to_string(), error, "{text}");
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_key() {
    refused(
        "[turn]\n# a comment\nbuget_ms = 4000\n",
        "test.toml:3: turn.buget_ms: there is no such key; did you mean turn.budget_ms?",
    );
    refused(
        "[limits.modell]\nslots = 3\n",
        "test.toml:1: limits.modell: there is no such key; did you mean limits.model?",
    );
    refused(
        "lead_ms = 3\n",
        "test.toml:1: lead_ms: there is no such key; did you mean playout.lead_ms?",
    );
    refused(
        "[limits.tools.bok]\nslots = 3\n",
        "test.toml:1: limits.tools.bok: there is no such key; did you mean limits.tools.book?",
    );
    refused(
        "[playout]\nxyzzy = 1\n",
        "test.toml:2: playout.xyzzy: there is no such key; the keys here are: lead_ms",
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_refused() {
    for (text, error) in [
        (
            "turn = 5",
            "test.toml:1: turn: this is a table of keys, no key; write [turn] and the keys below it",
        ),
        (
            "[listen]\naddress = 1",
            "test.toml:1: listen: a table stands here; write a text in \"quotes\"",
        ),
        ("llm = 3", "test.toml:1: llm: 3 is no table; write [llm] and the keys below it"),
        (
            "[turn]\nbudget_ms = \"4 s\"",
            "test.toml:2: turn.budget_ms: \"4 s\" is no whole number; \
             write a number of milliseconds from 500 to 60000",
        ),
        ("[models]\nfetch = 1", "test.toml:2: models.fetch: 1 is neither; write true or false"),
        (
            "[turn]\nend = \"smart_turm\"",
            "test.toml:2: turn.end: \"smart_turm\" is not known, did you mean \"smart_turn\"?; \
             write \"smart_turn\" or \"silence\" or \"transcript\"",
        ),
        (
            "[turn]\nbarge_in = { backchannels = [1] }",
            "test.toml:2: turn.barge_in.backchannels: [1] is no list of texts; \
             write [\"one\", \"two\"]",
        ),
        (
            "[realtime]\nmessage_max = \"22MiB\"",
            "test.toml:2: realtime.message_max: 22MiB is out of bounds; \
             write a size from \"64KiB\" to \"21MiB\"",
        ),
    ] {
        refused(text, error);
    }
}

/// Issue 3: ceilings 100000, depth 65536, times 3600000 ms, share 100.
#[test]
fn a_limit_beyond_its_maximum_is_refused() {
    for (key, right, wrong) in [
        ("slots", "100000", "100001"),
        ("slots", "0", "-1"),
        ("queue", "65536", "65537"),
        ("queue", "0", "-1"),
        ("max_wait_ms", "3600000", "3600001"),
        ("tenant_share_pct", "100", "101"),
        ("tenant_share_pct", "1", "0"),
        ("ttft_target_ms", "3600000", "3600001"),
        ("telemetry_stale_ms", "3600000", "3600001"),
        ("warmup_ms", "3600000", "3600001"),
        ("evidence_ms", "3600000", "3600001"),
        ("slots", "\"unlimited\"", "\"many\""),
        ("slots", "\"inherit\"", "1.5"),
    ] {
        let text = |value: &str| format!("[limits.model]\n{key} = {value}\n");
        parse(&text(right)).unwrap_or_else(|errors| panic!("{errors}"));
        let errors = parse(&text(wrong)).expect_err(wrong);
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert_eq!(errors.0[0].key, format!("limits.model.{key}"));
        assert_eq!(errors.0[0].line, Some(2));
    }
}

/// B-031: judged on what results, whatever layer each half comes from.
#[test]
fn a_queue_without_a_wait_is_refused() {
    refused(
        "[limits.model]\nqueue = 1\nmax_wait_ms = 0\n",
        "test.toml:3: limits.model.max_wait_ms: a queue of 1 needs a time to wait, and this is 0; \
         write at least 1, or queue = 0 to refuse at once",
    );
    let errors = with_sets("[limits.call]\nmax_wait_ms = 0\n", &[]).expect_err("queue is 16");
    assert_eq!(errors.0[0].key, "limits.call.max_wait_ms");
    with_sets("[limits.call]\nmax_wait_ms = 0\n", &["limits.call.queue=0"]).expect("no queue");
}

/// no slots is a closed gate, legal; X-09: the words.
#[test]
fn slots_are_a_number_or_a_word() {
    let config = parse("[limits.model]\nslots = 0\n[limits.call]\nslots = \"unlimited\"\n");
    let limits = config.expect("right").limits;
    assert_eq!(limits.model.slots, Slots::Limited(0));
    assert_eq!(limits.call.slots, Slots::Unlimited);
}

/// B-021: configuration, then environment, then default; `inherit` says nothing.
#[test]
fn a_value_comes_from_the_highest_layer_that_says_it() {
    let key = "limits.model.slots";
    let env = [("FLOORKEEPER_LIMITS_MODEL_SLOTS", "8")];
    let slots = |config: &Config| (config.limits.model.slots, config.origins.source(key));
    let said = |text: &str| slots(&with_env(text, &env).expect("right"));
    assert_eq!(said("[limits.model]\nslots = 9"), (Slots::Limited(9), Some(Source::Config)));
    assert_eq!(said("[limits.model]\nslots = \"inherit\""), (Slots::Limited(8), Some(Source::Env)));
    assert_eq!(said(""), (Slots::Limited(8), Some(Source::Env)));
    let nothing = parse("").expect("right");
    assert_eq!(slots(&nothing), (Slots::Limited(64), Some(Source::Default)));
    let set = with_sets("[limits.model]\nslots = 9", &["limits.model.slots=10"]).expect("right");
    assert_eq!(slots(&set), (Slots::Limited(10), Some(Source::Set)));
}

/// B-027: what `inherit` returns to at run time.
#[test]
fn what_is_below_the_file_is_kept() {
    let env = [("FLOORKEEPER_LIMITS_MODEL_SLOTS", "8")];
    let config = with_env("[limits.model]\nslots = 9\nqueue = 5\n", &env).expect("right");
    assert_eq!(config.limits.model.slots, Slots::Limited(9));
    let below = &config.inherited;
    assert_eq!((below.limits.model.slots, below.limits.model.queue), (Slots::Limited(8), 0));
    assert_eq!(below.origins.source("limits.model.slots"), Some(Source::Env));
    assert_eq!(below.origins.source("limits.model.queue"), Some(Source::Default));
}

#[test]
fn a_tool_takes_from_all_tools_what_it_does_not_say() {
    let text = "[limits.tools]\nslots = 3\nmax_wait_ms = 7\n[limits.tools.book]\nslots = 1\n";
    let limits = parse(text).expect("right").limits;
    assert_eq!(limits.of_tool("book").slots, Slots::Limited(1));
    assert_eq!(limits.of_tool("book").max_wait.as_millis(), 7);
    assert_eq!(limits.of_tool("find_slot").slots, Slots::Limited(3));
}

#[test]
fn a_wrong_variable_is_refused_like_a_wrong_line() {
    let errors = with_env("", &[("FLOORKEEPER_TURN_SILENCE_MS", "soon")]).expect_err("no number");
    assert_eq!(
        errors.to_string(),
        "FLOORKEEPER_TURN_SILENCE_MS: turn.silence_ms: \"soon\" is no whole number; \
         write a number of milliseconds from 100 to 10000"
    );
    let config = with_env("", &[("FLOORKEEPER_TURN_SILENCE", "700"), ("PATH", "/bin")]);
    assert_eq!(
        config.expect("a warning only").warnings,
        ["environment: FLOORKEEPER_TURN_SILENCE is no key's; \
          did you mean FLOORKEEPER_TURN_SILENCE_MS?"]
    );
}

#[test]
fn a_set_is_a_toml_value_or_a_bare_word() {
    let sets = [
        "agent.default.greeting=Good morning, Ada's.",
        "agent.default.voice=\"joe\"",
        "listen=localhost:9",
        "turn.barge_in={duck_ms=10}",
        "agent.night.greeting=Good night",
        "llm.nested.key=1",
    ];
    let config = with_sets("", &sets).expect("right");
    let agent = config.default_agent();
    let greeting = agent.greeting.as_ref().expect("a greeting").fill(|_| None);
    assert_eq!(greeting, "Good morning, Ada's.");
    assert_eq!(agent.voice.as_deref(), Some("joe"));
    assert_eq!(config.listen.to_string(), "127.0.0.1:9");
    assert_eq!(config.turn.barge_in.duck.as_millis(), 10);
    assert_eq!(config.turn.barge_in.confirm.as_millis(), 240);
    assert_eq!(config.agent("night").expect("a profile").voice.as_deref(), Some("joe"));
    assert_eq!(config.llm.table["nested"]["key"].as_integer(), Some(1));
    for (set, error) in [
        ("slots", "--set: slots: there is no '=' in it; write --set limits.model.slots=8"),
        ("a..b=1", "--set: a..b: this is no dotted key; write --set limits.model.slots=8"),
        (
            "turn.silence_sm=1",
            "--set: turn.silence_sm: there is no such key; did you mean turn.silence_ms?",
        ),
    ] {
        assert_eq!(with_sets("", &[set]).expect_err(set).to_string(), error);
    }
}

#[test]
fn a_set_that_chooses_another_plug_in_leaves_the_files_keys_out() {
    let file = "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let sets = ["llm.provider=scripted", "llm.reply=Hello"];
    let config = with_sets(file, &sets).expect("right");
    assert_eq!(config.llm.provider, "scripted");
    assert_eq!(config.llm.table.keys().collect::<Vec<_>>(), ["reply"]);
    assert_eq!(
        config.warnings,
        ["--set llm.provider chooses another: the file's base_url are left out"]
    );
    let same = with_sets(file, &["llm.provider=openai"]).expect("right");
    assert!(same.llm.table.contains_key("base_url"));
    assert!(same.warnings.is_empty());
}

#[test]
fn a_plug_in_or_tool_that_does_not_exist_is_refused() {
    refused(
        "[asr]\nprovider = \"moonshin\"",
        "test.toml:2: asr.provider: there is no provider \"moonshin\"; did you mean \"moonshine\"?",
    );
    refused(
        "[agent.default]\ntools = [\"find_slots\"]",
        "test.toml:2: agent.default.tools: there is no tool \"find_slots\"; \
         did you mean \"find_slot\"?",
    );
    let text = "[tool.weather]\nprovider = \"scripted\"\nresult = \"rain\"\n\
                [agent.default]\ntools = [\"weather\"]\n";
    let config = parse(text).expect("right");
    assert_eq!(config.tools["weather"].table["result"].as_str(), Some("rain"));
    assert!(config.limits.tool.contains_key("weather"));
    let errors = parse("[tool.slots]\nprovider = \"scripted\"\n").expect_err("a key's name");
    assert_eq!(errors.0[0].key, "tool.slots");
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_file() {
    let text = "lsten = \"x\"\n[turn]\nsilence_ms = 1\nend = 3\n[fallback]\nstart_ms = 9000\n";
    let errors = parse(text).expect_err("four errors");
    let lines: Vec<Option<usize>> = errors.0.iter().map(|error| error.line).collect();
    assert_eq!(lines, [Some(1), Some(3), Some(4), Some(6)], "{errors}");
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let errors = parse("[turn]\nsilence_ms = \n").expect_err("no TOML");
    assert_eq!(errors.0[0].line, Some(2), "{errors}");
    assert!(errors.0[0].problem.starts_with("this is not TOML: "), "{errors}");
    let errors = parse("[turn]\nsilence_ms = 500\nsilence_ms = 600\n").expect_err("twice");
    assert_eq!(errors.0[0].line, Some(3), "{errors}");
}

#[test]
fn a_public_address_without_keys_is_refused() {
    for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"] {
        let errors = parse(&format!("listen = \"{address}\"")).expect_err(address);
        assert_eq!(
            errors.to_string(),
            format!(
                "test.toml:1: listen: {address} can be reached from other machines and no key is \
                 needed; name a file of keys in auth.keys_file, or listen on 127.0.0.1"
            )
        );
        let keys = "[auth]\nkeys_file = \"tests/data/keys.txt\"\n";
        let config = parse(&format!("listen = \"{address}\"\n{keys}")).expect("with keys");
        let keys = config.auth.keys.expect("keys");
        assert_eq!(keys.len(), 2);
        assert_eq!((keys[0].secret.as_str(), keys[0].tenant.as_deref()), ("k-first", None));
        assert_eq!(
            (keys[1].secret.as_str(), keys[1].tenant.as_deref()),
            ("k-second", Some("blue"))
        );
        assert!(!format!("{keys:?}").contains("k-first"), "a key is never shown");
    }
    for address in ["127.0.0.1:0", "[::1]:8080", "localhost:80"] {
        parse(&format!("listen = \"{address}\"")).expect("loopback");
    }
    let errors = parse("[auth]\nkeys_file = \"no/such/file\"").expect_err("no file");
    assert_eq!(errors.0[0].key, "auth.keys_file");
}

#[test]
fn a_text_names_only_variables_that_exist() {
    let text = "[agent.default]\ninstructions = \"Ada's, for {{metadata.form}}\"\n\
                [agent.default.metadata]\nfrom = \"{{call.from}}\"\n";
    let errors = parse(text).expect_err("no such variable");
    assert_eq!(errors.0[0].key, "agent.default.instructions");
    assert_eq!(errors.0[0].problem, "there is no variable {{metadata.form}}");
    let config = parse(&text.replace("form}}", "from}}")).expect("right");
    let agent = config.default_agent();
    let from = agent.metadata["from"].fill(|name| (name == "call.from").then(|| "+1".to_owned()));
    assert_eq!(from, "+1");
}

#[test]
fn a_secret_is_not_shown() {
    let text = "[llm]\nprovider = \"openai\"\napi_key = \"sk-1\"\nmax_tokens = 5\n";
    let config = parse(text).expect("right");
    for shown in [config.show(false), config.show(true)] {
        assert!(!shown.contains("sk-1"), "{shown}");
    }
    let json: serde_json::Value = serde_json::from_str(&config.show(true)).expect("JSON");
    assert_eq!(json["llm.api_key"]["value"], "(set)");
    assert_eq!(json["llm.max_tokens"]["value"], 5);
    assert_eq!(json["llm.max_tokens"]["line"], 4);
    assert_eq!(json["limits.model.slots"]["source"], "default");
    assert!(config.show(false).contains("llm.provider = \"openai\""));
}
