//! What is wrong about telephones.

use crate::refused;

/// What is dialled is answered by one agent (issue 7.5).
#[test]
fn a_number_that_two_agents_answer_is_refused() {
    for (text, error) in [
        (
            "[agent.day]\nnumbers = [\"100\"]\n[agent.night]\nnumbers = [\"100\"]\n",
            "test.toml:4: agent.night.numbers: \"100\" is answered by agent \"day\" already; let \
             one of them answer it",
        ),
        (
            "[agent.100]\n[agent.night]\nnumbers = [\"100\"]\n",
            "test.toml:3: agent.night.numbers: \"100\" is answered by agent \"100\" already; let \
             one of them answer it",
        ),
    ] {
        refused(text, error);
    }
}

/// Who dials must be able to, may dial nothing that was not named, and shows a number of theirs
/// (issue 7.5).
#[test]
fn a_dialler_that_cannot_dial_is_refused() {
    let dials = "[callback]\ndialler = \"sip\"\n";
    for (text, error) in [
        (
            format!("{dials}[outbound]\nfrom = \"+15550100\"\n"),
            "test.toml:2: callback.dialler: \"sip\" dials, and no SIP is spoken here; say in \
             sip.listen where it is",
        ),
        (
            format!("{dials}[sip]\nlisten = \"127.0.0.1:5060\"\n"),
            "default: outbound.from: whoever is rung sees no number; write the number that is \
             yours to show, as in \"+15550100\"",
        ),
        (
            "[callback]\ndialler = \"twilio\"\n[outbound]\nfrom = \"+15550100\"\n[twilio]\n\
             auth_token_env = \"TOKEN\"\n[public]\nurl = \"https://voice.example.com\"\n"
                .to_owned(),
            "default: twilio.account_sid: Twilio's API is asked, and this is not said; say \
             twilio.account_sid as well, which callback.dialler needs",
        ),
        (
            "[twilio]\napi_url = \"http://api.example\"\n".to_owned(),
            "test.toml:2: twilio.api_url: this is no https address, and none of this machine; \
             write \"https://api.twilio.com\"",
        ),
        (
            "[twilio]\naccount_sid = \"AC1/../x\"\n".to_owned(),
            "test.toml:2: twilio.account_sid: \"AC1/../x\" is no account's name; write \"AC…\", \
             as the console shows it",
        ),
        (
            "[outbound]\nallow = [\"1555\"]\n".to_owned(),
            "test.toml:2: outbound.allow: \"1555\" is neither the beginning of a number nor a SIP \
             address; write [\"+1555\", \"sip:*@desk.example\", \"sip:ada@192.0.2.7:5060\"]",
        ),
        (
            "[outbound]\nfrom = \"+1 555\\r\\nX: y\"\n".to_owned(),
            "test.toml:2: outbound.from: \"+1 555\r\nX: y\" is no number and no name; write \
             \"+15550100\", a number that is yours to show",
        ),
        (
            "[outbound]\ngreeting = \"Hello {{caller}}\"\n".to_owned(),
            "test.toml:2: outbound.greeting: nothing is known as {{caller}}; write {{call.to}}, \
             {{call.from}}, {{call.param.Callback-Why}}",
        ),
    ] {
        refused(&text, error);
    }
}

/// Issue 7.2: a list of codecs that no call could use.
#[test]
fn codecs_that_are_none_are_refused() {
    for (text, error) in [
        (
            "[sip]\ncodecs = [\"opus\", \"gsm\"]\n",
            "test.toml:2: sip.codecs: \"gsm\" is none that is spoken here; write \"opus\", \
             \"g722\", \"pcmu\", \"pcma\" or some of them, the one that you like best first",
        ),
        (
            "[sip]\ncodecs = []\n",
            "test.toml:2: sip.codecs: a call needs at least one; write \"opus\", \"g722\", \
             \"pcmu\", \"pcma\" or some of them, the one that you like best first",
        ),
        (
            "[sip]\ncodecs = [\"pcma\", \"pcma\"]\n",
            "test.toml:2: sip.codecs: one of them stands there twice; write \"opus\", \"g722\", \
             \"pcmu\", \"pcma\" or some of them, the one that you like best first",
        ),
    ] {
        refused(text, error);
    }
}

/// As with HTTP: what can be reached from outside needs to know who may (issue 7).
#[test]
fn a_sip_port_that_anybody_can_reach_is_refused() {
    for (text, error) in [
        (
            "[sip]\nlisten = \"192.0.2.1:5060\"\n",
            "test.toml:2: sip.listen: 192.0.2.1:5060 can be reached from other machines and \
             anybody may ring; name those who may in sip.peers or sip.users_file, or listen on \
             127.0.0.1",
        ),
        (
            "[sip]\nlisten = \"0.0.0.0:5060\"\npeers = [\"192.0.2.0/24\"]\n",
            "test.toml:2: sip.listen: an address for all interfaces is none that peers can send \
             to; say in sip.public_address where peers reach this machine",
        ),
        (
            "[sip]\nlisten = \"127.0.0.1:5060\"\npublic_address = \"2001:db8::1\"\n",
            "test.toml:3: sip.public_address: nobody who sends to 2001:db8::1 is heard at \
             127.0.0.1:5060; say an address of the same family, or listen on \"[::]:5060\"",
        ),
        (
            "[sip]\ntls_listen = \"127.0.0.1:5061\"\n",
            "test.toml:2: sip.tls_listen: there is no certificate for it; name tls.cert_file and \
             tls.key_file",
        ),
        (
            "[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n[sip]\ntls_listen = \"192.0.2.1:5061\"\n",
            "test.toml:5: sip.tls_listen: 192.0.2.1:5061 can be reached from other machines and \
             anybody may ring; name those who may in sip.peers or sip.users_file, or listen on \
             127.0.0.1",
        ),
        (
            "[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n[sip]\nlisten = \"127.0.0.1:5060\"\n\
             tls_listen = \"127.0.0.2:5061\"\n",
            "test.toml:6: sip.tls_listen: sound is heard at one address, and sip.listen says \
             127.0.0.1:5060; say the same address with another port",
        ),
        (
            "[sip]\npeers = [\"phones.example\"]\n",
            "test.toml:2: sip.peers: \"phones.example\" is no address and no network; write \
             [\"203.0.113.7\", \"192.0.2.0/24\"]",
        ),
        (
            "[sip]\nrtp_ports = \"80-90\"\n",
            "test.toml:2: sip.rtp_ports: \"80-90\" are no ports; write \"16384-32767\", above \
             1023 and with an even port among them",
        ),
        (
            "[sip]\nrtp_ports = \"65535-65535\"\n",
            "test.toml:2: sip.rtp_ports: \"65535-65535\" are no ports; write \"16384-32767\", \
             above 1023 and with an even port among them",
        ),
    ] {
        refused(text, error);
    }
}

/// The same for AudioSocket, which knows no password.
#[test]
fn an_audiosocket_port_that_anybody_can_reach_is_refused() {
    for (text, error) in [
        (
            "[asterisk]\naudiosocket_listen = \"0.0.0.0:9092\"\n",
            "test.toml:2: asterisk.audiosocket_listen: 0.0.0.0:9092 can be reached from other \
             machines and anybody may ring; name those who may in asterisk.audiosocket_peers, or \
             listen on 127.0.0.1",
        ),
        (
            "[asterisk]\naudiosocket_listen = \"9092\"\n",
            "test.toml:2: asterisk.audiosocket_listen: \"9092\" is no address with a port; write \
             \"127.0.0.1:9092\", or \"\" for no AudioSocket",
        ),
    ] {
        refused(text, error);
    }
}
