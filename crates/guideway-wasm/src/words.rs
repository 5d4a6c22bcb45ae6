//! Reading and writing arrays of words.

use crate::Refusal;

/// Reads a request from its start.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    words: &'a [u32],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first of `words`.
    pub fn new(words: &'a [u32]) -> Self {
        Self { words, at: 0 }
    }

    /// The next word.
    ///
    /// # Errors
    /// [`Refusal::Short`] at the end.
    pub fn word(&mut self) -> Result<u32, Refusal> {
        let word = self.words.get(self.at).copied().ok_or(Refusal::Short(self.at))?;
        self.at += 1;
        Ok(word)
    }

    /// Two words, the low one first.
    ///
    /// # Errors
    /// [`Refusal::Short`] at the end.
    pub fn long(&mut self) -> Result<u64, Refusal> {
        let low = self.word()?;
        Ok(u64::from(self.word()?) << 32 | u64::from(low))
    }

    /// A text.
    ///
    /// # Errors
    /// [`Refusal::Short`] at the end, [`Refusal::Text`] for what is not UTF-8.
    pub fn text(&mut self) -> Result<String, Refusal> {
        let at = self.at;
        let length = self.word()? as usize;
        let rest = &self.words[self.at..];
        let words = rest.get(..length.div_ceil(4)).ok_or(Refusal::Short(self.words.len()))?;
        self.at += words.len();
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(|_| Refusal::Text(at))
    }

    /// A list of what `item` reads.
    ///
    /// # Errors
    /// Those of `item`, and [`Refusal::Short`].
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        (0..self.word()?).map(|_| item(self)).collect()
    }

    /// Checks that all has been read.
    ///
    /// # Errors
    /// [`Refusal::Long`] when it has not.
    pub fn end(&self) -> Result<(), Refusal> {
        match self.words.len() - self.at {
            0 => Ok(()),
            more => Err(Refusal::Long(more)),
        }
    }
}

/// Writes a response, or a request.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    words: Vec<u32>,
}

impl Writer {
    /// What has been written.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }

    /// Writes one word.
    pub fn word(&mut self, word: u32) {
        self.words.push(word);
    }

    /// Writes two words, the low one first.
    pub fn long(&mut self, value: u64) {
        self.words.extend([value as u32, (value >> 32) as u32]);
    }

    /// Writes a float.
    pub fn float(&mut self, value: f64) {
        self.long(value.to_bits());
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) {
        self.word(text.len() as u32);
        for chunk in text.as_bytes().chunks(4) {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.word(u32::from_le_bytes(bytes));
        }
    }

    /// Writes a list of words.
    pub fn words(&mut self, words: impl ExactSizeIterator<Item = u32>) {
        self.word(words.len() as u32);
        self.words.extend(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let mut writer = Writer::default();
        writer.word(7);
        writer.long(0x0123_4567_89ab_cdef);
        for text in ["", "a", "abcd", "zürich"] {
            writer.text(text);
        }
        writer.words([1, 2, 3].into_iter());
        let words = writer.into_words();
        let mut reader = Reader::new(&words);
        assert_eq!(reader.word(), Ok(7));
        assert_eq!(reader.long(), Ok(0x0123_4567_89ab_cdef));
        for text in ["", "a", "abcd", "zürich"] {
            assert_eq!(reader.text().unwrap(), text);
        }
        assert_eq!(reader.list(Reader::word), Ok(vec![1, 2, 3]));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        assert_eq!(Reader::new(&[]).word(), Err(Refusal::Short(0)));
        assert_eq!(Reader::new(&[1]).long(), Err(Refusal::Short(1)));
        assert_eq!(Reader::new(&[9, 0]).text(), Err(Refusal::Short(2)));
        assert_eq!(Reader::new(&[u32::MAX]).text(), Err(Refusal::Short(1)));
        assert_eq!(Reader::new(&[u32::MAX, 1]).list(Reader::word), Err(Refusal::Short(2)));
        assert_eq!(Reader::new(&[1, 0xff]).text(), Err(Refusal::Text(0)));
        assert_eq!(Reader::new(&[1]).end(), Err(Refusal::Long(1)));
    }
}
