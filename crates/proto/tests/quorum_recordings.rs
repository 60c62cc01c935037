//! Conversations between Apache servers, recorded: every message decodes to what was written down about it
//! and encodes to the same bytes again.
#![allow(clippy::unwrap_used, reason = "a broken recording may end the test")]

use std::path::Path;

use serde_json::Value;
use zebu_proto::Reader;
use zebu_proto::quorum::{InitialMessage, Notification, Packet, PacketLength, packet_length};

#[test]
fn every_recorded_message_round_trips() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/quorum");
    let mut counts = [0; 3];
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        for (line, text) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let place = format!("{}:{}", path.display(), line + 1);
            let message: Value = serde_json::from_str(text).unwrap();
            let bytes = unhex(message["bytes"].as_str().unwrap());
            let decoded = &message["decoded"];
            match decoded["type"].as_str().unwrap() {
                "EVENT" | "CONNECT" | "CLOSE" | "RESET" | "SNAP-STREAM" | "SASL" => {}
                "INITIAL" => {
                    counts[0] += 1;
                    check_initial(&bytes, decoded, &place);
                }
                "NOTIFICATION" => {
                    counts[1] += 1;
                    check_notification(&bytes, decoded, &place);
                }
                name => {
                    counts[2] += 1;
                    check_packet(&bytes, name, decoded, &place);
                }
            }
        }
    }
    assert_eq!(counts, [37, 89, 840], "initial messages, notifications and packets of the recordings");
}

fn check_initial(bytes: &[u8], decoded: &Value, place: &str) {
    let message = InitialMessage::decode(&mut Reader::new(bytes)).expect(place);
    assert_eq!(Some(message.server.0), decoded["sid"].as_i64(), "{place}");
    assert_eq!(Some(message.addresses.join("|").as_str()), decoded["address"].as_str(), "{place}");
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, bytes, "{place}");
}

fn check_notification(bytes: &[u8], decoded: &Value, place: &str) {
    let message = Notification::decode(&bytes[4..]).expect(place);
    assert_eq!(format!("{:?}", message.state).to_uppercase(), decoded["state"].as_str().unwrap(), "{place}");
    assert_eq!(message.round, decoded["electionEpoch"].as_i64().unwrap(), "{place}");
    assert_eq!(message.zxid.0, number(&decoded["zxid"]), "{place}");
    assert_eq!(message.leader.0, number(&decoded["leader"]), "{place}");
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, bytes, "{place}");
}

fn check_packet(bytes: &[u8], name: &str, decoded: &Value, place: &str) {
    assert_eq!(packet_length(bytes, 1 << 20), PacketLength::Complete { length: bytes.len() }, "{place}");
    let packet = Packet::decode(&mut Reader::new(bytes)).expect(place);
    let variant = format!("{packet:?}").to_uppercase();
    let variant = variant.trim_end_matches(|character: char| !character.is_alphanumeric());
    let name = match name {
        "PING" if variant.starts_with("PINGREPLY") => "PINGREPLY",
        "REVALIDATE" if variant.starts_with("REVALIDATED") => "REVALIDATED",
        name => name,
    };
    assert!(variant.starts_with(name), "{place}: {name} was read as {packet:?}");
    if let Packet::Proposal { zxid, .. } | Packet::Commit { zxid } | Packet::Ack { zxid } = &packet {
        assert_eq!(zxid.0, number(&decoded["zxid"]), "{place}");
    }
    let mut again = Vec::new();
    packet.encode(&mut again);
    assert_eq!(again, bytes, "{place}");
}

/// A number, or a hexadecimal text of its unsigned value.
fn number(value: &Value) -> i64 {
    match value.as_str() {
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap() as i64,
        None => value.as_i64().unwrap(),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
