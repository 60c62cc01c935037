//! Data as a table of sixteen bytes a line, hexadecimal and as characters: the layout of `get -x`.

const EDGE: &str = "+--------+-------------------------------------------------+----------------+";

/// The table, without a line end after its last line; nothing for no data.
pub(crate) fn table(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let mut text = String::from("         +-------------------------------------------------+\n         |");
    for column in 0..16 {
        text.push_str(&format!("  {column:x}"));
    }
    text.push_str(&format!(" |\n{EDGE}"));
    for (row, bytes) in data.chunks(16).enumerate() {
        let digits: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
        let characters: String = bytes.iter().map(shown).collect();
        text.push_str(&format!("\n|{:08x}|{digits:<48} |{characters:<16}|", row * 16));
    }
    text.push_str(&format!("\n{EDGE}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout() {
        let expected = "\
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 |0123456789abcdef|
|00000010| 00 ff 20                                        |..              |
+--------+-------------------------------------------------+----------------+";
        let expected = format!("         {}", expected.trim_start());
        assert_eq!(table(b"0123456789abcdef\0\xff "), expected);
        assert_eq!(table(b""), "");
    }
}
