//! Lines of keys as telephones write them.

use super::*;

const KEY: &str = "inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj";

#[test]
fn a_line_is_read_where_it_can_be_spoken_with() {
    for right in [
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}"),
        format!("2 AES_CM_128_HMAC_SHA1_32 {KEY}|2^31"),
        format!("999999999 AES_CM_128_HMAC_SHA1_80 {KEY}|1048576 WSH=128 -X-MORE"),
    ] {
        assert!(Line::parse(&right).is_some(), "{right}");
    }
    for wrong in [
        String::new(),
        "1".to_owned(),
        format!("one AES_CM_128_HMAC_SHA1_80 {KEY}"),
        format!("1 AES_256_CM_HMAC_SHA1_80 {KEY}"),
        format!("1 F8_128_HMAC_SHA1_80 {KEY}"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}|2^20|1:4"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY};{KEY}"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY} UNENCRYPTED_SRTP"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY} UNAUTHENTICATED_SRTP"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {KEY} KDR=4"),
        format!("1 AES_CM_128_HMAC_SHA1_80 {}", &KEY[..40]),
        "1 AES_CM_128_HMAC_SHA1_80 inline:".to_owned(),
        "1 AES_CM_128_HMAC_SHA1_80 prompt:abc".to_owned(),
    ] {
        assert_eq!(Line::parse(&wrong), None, "{wrong}");
    }
}

#[test]
fn a_line_is_written_as_it_is_read_and_its_key_is_not_shown() {
    let line = Line::parse(&format!("7 AES_CM_128_HMAC_SHA1_32 {KEY}")).unwrap();
    assert_eq!(line.write(), format!("a=crypto:7 AES_CM_128_HMAC_SHA1_32 {KEY}\r\n"));
    assert!(!format!("{line:?}").contains("119"), "{line:?}");
}

/// RFC 4568, 7.1.4: our key stays for as long as theirs does.
#[test]
fn our_key_is_new_whenever_theirs_is() {
    let line = |suite: &str| Line::parse(&format!("1 AES_CM_128_HMAC_SHA1_{suite} {KEY}")).unwrap();
    let first = Keys::answering(SECURE, &line("80"), None);
    let same = Keys::answering(SECURE, &Line { tag: 4, ..line("80") }, Some(&first));
    assert_eq!((&same.ours, same.tag), (&first.ours, 4));
    let other = Keys::answering(SECURE, &line("32"), Some(&first));
    assert_ne!(other.ours, first.ours);
    let fresh = Line { key: Key::drawn(), ..line("80") };
    assert_ne!(Keys::answering(SECURE, &fresh, Some(&first)).ours, first.ours);
}
