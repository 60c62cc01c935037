//! Ids of scheme x509 and ACL ids, as recorded from Java.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use zebu_security::x500_name::is_x500_name;
use zebu_security::x509_id::{x509_id, x509_id_of_subject};

fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn ids_of_recorded_subjects() {
    let cases = cases("x509-ids.json");
    assert_eq!(cases.len(), 30);
    for case in cases {
        let subject = unhex(case["subject_der"].as_str().unwrap());
        assert_eq!(x509_id_of_subject(&subject).unwrap(), case["x509_id"], "{}", case["case"]);
    }
}

#[test]
fn unusual_subjects_have_ids_too() {
    let attribute = |content: &[u8]| {
        let length = content.len() as u8;
        let head = [0x30, length + 11, 0x31, length + 9, 0x30, length + 7, 6, 3, 0x55, 4, 3, 0x0c, length];
        [&head[..], content].concat()
    };
    assert_eq!(x509_id_of_subject(&attribute(b"a\xff\xfeb")).unwrap(), "CN=a\u{fffd}\u{fffd}b");
    assert_eq!(x509_id_of_subject(&attribute(b"")).unwrap(), "CN=");
    // An identifier that only begins like that of CN must not pass for it.
    let other = [0x30, 14, 0x31, 12, 0x30, 10, 6, 5, 0x55, 4, 3, 0xff, 0x7f, 0x0c, 1, b'a'];
    assert_eq!(x509_id_of_subject(&other).unwrap(), "2.5.4.3.16383=#0c0161");
    let incomplete = [0x30, 13, 0x31, 11, 0x30, 9, 6, 4, 0x55, 4, 3, 0xff, 0x0c, 1, b'a'];
    assert_eq!(x509_id_of_subject(&incomplete).unwrap(), "malformed.550403ff=#0c0161");
    for broken in [&b""[..], &[0x30], &[0x30, 1, 0x31], &[0x30, 0, 0]] {
        assert!(x509_id_of_subject(broken).is_err(), "{broken:02x?}");
    }
    assert!(x509_id(b"no certificate").is_err());
}

#[test]
fn acl_ids_that_java_accepts() {
    let cases = cases("x509-acl-ids.json");
    assert_eq!(cases.len(), 25);
    for case in cases {
        let id = case["acl_id"].as_str().unwrap();
        assert_eq!(is_x500_name(id), case["valid"], "{id:?}");
    }
}

#[test]
fn every_recorded_id_is_a_valid_acl_id_of_java() {
    // Java does not accept all of its own ids again: a backslash before CR is no escape of its parser.
    let without_carriage_return = |id: &&Value| !id["x509_id"].as_str().unwrap().contains("\\\r");
    for case in cases("x509-ids.json").iter().filter(without_carriage_return) {
        assert!(is_x500_name(case["x509_id"].as_str().unwrap()), "{}", case["case"]);
    }
}

/// Checked with `javax.security.auth.x500.X500Principal` of Java 17.
#[test]
fn more_names_for_java() {
    for id in [
        "CN=\"a\\\"b\" ",
        "CN=a\\41",
        "CN=a+OU=\"b+c\"",
        "2.50.3=x",
        "CN=a\\\\,O=b",
        "IP=1",
        " CN = a b ",
        "\tCN=a",
        "CN=\ta",
        "CN=a=b",
        "CN=a\nb",
        "CN=\\ \\ ",
        "CN=a\\00b",
        "S=a",
        "CN=\"a\\41\"",
        "CN=\"\"",
        "CN=a;O=b",
        "oid.1.2=x",
        "CN=\\\"a,O=b",
        "DNQ=1,T=x",
        "01.2=x",
        "1.2.3 =x",
    ] {
        assert!(is_x500_name(id), "{id:?}");
    }
    for id in [
        "CN=#",
        "CN=#0",
        "CN=#zz",
        "CN=#0c02",
        "OID.1.2.3=#0c0161 ",
        "CN= # no hex",
        "CN=#0c0161zz",
        "CN=#0c0161 x",
        "CN=\"a",
        "CN=\"a\"b",
        "CN=a\\q",
        "CN=\\\rx",
        "CN=a<b",
        "CN=a>b",
        "CN=a+",
        "+CN=a",
        ",CN=a",
        "CN=a,,O=b",
        "CN=a, ",
        " ",
        "1=x",
        "3.1=x",
        "1.40=x",
        "1..2=x",
        "1.2.=x",
        "OID.CN=x",
        "CN=a\\",
        "CN=a\\4",
        "CN=a\"b",
    ] {
        assert!(!is_x500_name(id), "{id:?}");
    }
}
