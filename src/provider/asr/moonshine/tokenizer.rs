//! Moonshine's vocabulary: token numbers to text.

/// Stands for a space inside a token.
const SPACE: char = '\u{2581}';

/// The byte strings of all tokens, by number.
pub(super) struct Vocabulary {
    tokens: Vec<Vec<u8>>,
}

impl Vocabulary {
    /// Reads the file: each token is its length (one byte, or two from 128 on, low seven bits
    /// first) and its bytes. `None` when the file ends in the middle of one.
    pub(super) fn read(mut file: &[u8]) -> Option<Vocabulary> {
        let mut tokens = Vec::new();
        while let Some((&first, mut rest)) = file.split_first() {
            let mut length = usize::from(first);
            if first >= 128 {
                let (&second, after) = rest.split_first()?;
                length = usize::from(second) * 128 + usize::from(first) - 128;
                rest = after;
            }
            let (token, after) = rest.split_at_checked(length)?;
            tokens.push(token.to_vec());
            file = after;
        }
        Some(Vocabulary { tokens })
    }

    /// The text of these tokens. `<0xNN>` is a byte; other words in angle brackets are markers and
    /// have no text.
    pub(super) fn text(&self, numbers: &[i64]) -> String {
        let mut bytes = Vec::new();
        for number in numbers {
            let Some(token) = usize::try_from(*number).ok().and_then(|at| self.tokens.get(at))
            else {
                continue;
            };
            match (token.strip_prefix(b"<0x"), token.first(), token.last()) {
                (Some(hex), _, Some(b'>')) if hex.len() == 3 => bytes.extend(byte(&hex[..2])),
                (_, Some(b'<'), Some(b'>')) if token.len() > 2 => {}
                _ => bytes.extend_from_slice(token),
            }
        }
        String::from_utf8_lossy(&bytes).replace(SPACE, " ").trim().to_owned()
    }
}

fn byte(hex: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::Vocabulary;

    #[test]
    fn tokens_are_joined_and_bytes_become_letters() {
        let mut file = Vec::new();
        for token in ["<unk>", "<s>", "</s>", "\u{2581}caf", "<0xC3>", "<0xA9>", "", "\u{2581}<"] {
            file.push(token.len() as u8);
            file.extend_from_slice(token.as_bytes());
        }
        let vocabulary = Vocabulary::read(&file).expect("whole");
        assert_eq!(vocabulary.text(&[1, 3, 4, 5, 6, 7, 2, 99, -1]), "caf\u{e9} <");
    }

    #[test]
    fn long_tokens_have_two_bytes_of_length_and_a_cut_file_is_refused() {
        let mut file = vec![128 + 44, 1];
        file.extend([b'a'; 172]);
        assert_eq!(Vocabulary::read(&file).expect("whole").text(&[0]).len(), 172);
        assert!(Vocabulary::read(&file[..100]).is_none());
    }
}
