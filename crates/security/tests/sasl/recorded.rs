//! Recorded exchanges as lists of tokens.

use std::fs;
use std::path::Path;

use serde_json::Value;

pub(crate) fn text(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)).unwrap()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

pub(crate) struct RecordedLine {
    pub(crate) scenario: String,
    pub(crate) from: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn lines(name: &str) -> Vec<RecordedLine> {
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let field = |key: &str| value[key].as_str().unwrap().to_owned();
        RecordedLine { scenario: field("scenario"), from: field("from"), bytes: unhex(&field("bytes")) }
    };
    text(name).lines().map(parse).collect()
}

pub(crate) fn scenarios(lines: &[RecordedLine]) -> Vec<String> {
    let mut names: Vec<String> = lines.iter().map(|line| line.scenario.clone()).collect();
    names.dedup();
    names
}

fn number(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// SASL tokens of a client's frames: operation 102.
pub(crate) fn client_tokens(lines: &[RecordedLine], scenario: &str) -> Vec<Vec<u8>> {
    let frames = lines.iter().filter(|line| line.scenario == scenario && line.from == "client");
    frames
        .filter(|frame| frame.bytes.len() >= 16 && number(&frame.bytes, 8) == 102)
        .map(|frame| frame.bytes[16..].to_vec())
        .collect()
}

/// Error codes and SASL tokens of the server's first replies, as many as the client sent tokens.
pub(crate) fn server_replies(lines: &[RecordedLine], scenario: &str) -> Vec<(i32, Option<Vec<u8>>)> {
    let frames = lines.iter().filter(|line| line.scenario == scenario && line.from == "server");
    let replies = frames.filter(|frame| frame.bytes.len() >= 24 && number(&frame.bytes, 4) > 0);
    let read = |frame: &RecordedLine| {
        let token = (number(&frame.bytes, 20) >= 0).then(|| frame.bytes[24..].to_vec());
        (number(&frame.bytes, 16), token)
    };
    replies.map(read).take(client_tokens(lines, scenario).len()).collect()
}
