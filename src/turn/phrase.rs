//! Reply tokens to sayable phrases: the first one early, the others at sentence ends.

/// The first phrase may end at a clause once it has this many characters.
const FIRST_CLAUSE_CHARS: usize = 24;
/// Later phrases may end at a clause once they have this many characters.
const CLAUSE_CHARS: usize = 90;
/// No phrase is longer than this; it is cut at a space.
const PHRASE_CHARS_MAX: usize = 220;
/// Abbreviations whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 9] = ["mr.", "mrs.", "ms.", "dr.", "st.", "no.", "e.g.", "i.e.", "vs."];

/// Cuts a stream of words into phrases.
#[derive(Clone, Debug, Default)]
pub struct Phraser {
    pending: String,
    cut: u32,
}

impl Phraser {
    /// Takes more words and gives the phrases that are now complete. No character is lost: the
    /// phrases joined are the words so far.
    pub fn push(&mut self, words: &str, phrases: &mut Vec<String>) {
        self.pending.push_str(words);
        while let Some(end) = self.boundary() {
            let rest = self.pending.split_off(end);
            phrases.push(std::mem::replace(&mut self.pending, rest));
            self.cut += 1;
        }
    }

    /// Nothing follows: what is left is the last phrase.
    pub fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.pending);
        (!rest.trim().is_empty()).then_some(rest)
    }

    /// Byte after the space that ends the first complete phrase.
    fn boundary(&self) -> Option<usize> {
        let clause_chars = if self.cut == 0 { FIRST_CLAUSE_CHARS } else { CLAUSE_CHARS };
        let mut last_space = None;
        let mut chars = 0;
        let mut previous = ' ';
        for (at, c) in self.pending.char_indices() {
            chars += 1;
            if c.is_whitespace() {
                let before = &self.pending[..at];
                let sayable = before.chars().any(char::is_alphanumeric);
                let sentence = matches!(previous, '.' | '!' | '?' | '…' | '\n') || c == '\n';
                let clause = matches!(previous, ',' | ';' | ':' | '—') && chars > clause_chars;
                if sayable && ((sentence && !ends_in_abbreviation(before)) || clause) {
                    return Some(at + c.len_utf8());
                }
                last_space = Some(at + c.len_utf8());
            }
            if chars > PHRASE_CHARS_MAX {
                return Some(last_space.unwrap_or(at + c.len_utf8()));
            }
            previous = c;
        }
        None
    }
}

fn ends_in_abbreviation(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or("");
    ABBREVIATIONS.iter().any(|abbreviation| word.eq_ignore_ascii_case(abbreviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, piece: usize) -> Vec<String> {
        let (mut phraser, mut phrases) = (Phraser::default(), Vec::new());
        let chars: Vec<char> = text.chars().collect();
        for part in chars.chunks(piece) {
            phraser.push(&part.iter().collect::<String>(), &mut phrases);
        }
        phrases.extend(phraser.finish());
        phrases
    }

    #[test]
    fn sentences_are_phrases_whatever_the_pieces_are() {
        let text = "There was a king. He had three sons! Dr. Grim, who knew everything there was to \
                    know, said no.";
        let whole = cut(text, 1000);
        assert_eq!(whole[0], "There was a king. ");
        assert_eq!(whole[2], "Dr. Grim, who knew everything there was to know, said no.");
        assert_eq!(cut(text, 1), whole);
        assert_eq!(whole.concat(), text);
    }

    #[test]
    fn the_first_phrase_ends_at_a_clause() {
        let phrases = cut("Well, if you ask me about it, then I would say that pears are best.", 5);
        assert_eq!(phrases[0], "Well, if you ask me about it, ");
        assert_eq!(phrases.len(), 2);
    }

    #[test]
    fn a_text_without_end_is_cut_at_a_space() {
        let text = "word ".repeat(200);
        assert!(cut(&text, 7).iter().all(|phrase| phrase.chars().count() <= PHRASE_CHARS_MAX));
        assert_eq!(cut(&text, 7).concat().trim_end(), text.trim_end());
    }
}
