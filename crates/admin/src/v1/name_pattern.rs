//! Patterns of node names: `*` stands for any characters, `?` for one; without them, a part of the name is
//! enough. Upper and lower case are the same.

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Vec<char>);

impl NamePattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> NamePattern {
        let text = text.to_lowercase();
        match text.contains(['*', '?']) {
            true => NamePattern(text.chars().collect()),
            false => NamePattern(format!("*{text}*").chars().collect()),
        }
    }

    /// Whether the whole name fits. The time is bounded by the product of both lengths.
    pub fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        let pattern = &self.0;
        let (mut at, mut pattern_at) = (0, 0);
        // Behind the last star: where it is in the pattern, and how much of the name it takes.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match pattern.get(pattern_at) {
                Some('*') => {
                    star = Some((pattern_at, at));
                    pattern_at += 1;
                }
                Some(&expected) if expected == '?' || expected == name[at] => {
                    at += 1;
                    pattern_at += 1;
                }
                Some(_) | None => {
                    let Some((star_at, taken)) = star else { return false };
                    star = Some((star_at, taken + 1));
                    at = taken + 1;
                    pattern_at = star_at + 1;
                }
            }
        }
        pattern[pattern_at..].iter().all(|&rest| rest == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("lock", "my-LOCK-1", true),
            ("lock", "loc", false),
            ("", "x", true),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("?", "", false),
            ("job-??", "job-07", true),
            ("job-??", "job-7", false),
            ("*0007*", "n-00070", true),
            ("ä?", "ÄÖ", true),
        ] {
            assert_eq!(NamePattern::new(pattern).fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = NamePattern::new(&"*a".repeat(100));
        assert!(!pattern.fits(&"a".repeat(99)));
        assert!(!NamePattern::new(&format!("{}b", "a*".repeat(100))).fits(&"a".repeat(5000)));
    }
}
