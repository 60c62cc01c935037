//! Patterns of node names: `*` stands for any characters, `?` for one; without them, a part of the name is
//! enough. Upper and lower case are the same.

use super::problem::Problem;

/// Characters of the longest pattern. The time of a comparison grows with them.
const PATTERN_CHARS_MAX: usize = 128;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Vec<char>);

impl NamePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is too long.
    pub fn parse(text: &str) -> Result<NamePattern, Problem> {
        if text.chars().count() > PATTERN_CHARS_MAX {
            let detail = format!("a pattern of names has at most {PATTERN_CHARS_MAX} characters");
            return Err(Problem::bad_request(detail));
        }
        let text = text.to_lowercase();
        Ok(match text.contains(['*', '?']) {
            true => NamePattern(text.chars().collect()),
            false => NamePattern(format!("*{text}*").chars().collect()),
        })
    }

    /// The comparisons that a name may take.
    pub fn work(&self, name: &str) -> usize {
        name.len() * self.0.len()
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
            assert_eq!(NamePattern::parse(pattern).unwrap().fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_long_pattern_is_refused() {
        assert!(NamePattern::parse(&"ä".repeat(PATTERN_CHARS_MAX)).is_ok());
        assert!(NamePattern::parse(&"a".repeat(PATTERN_CHARS_MAX + 1)).is_err());
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = NamePattern::parse(&"*a".repeat(60)).unwrap();
        assert!(!pattern.fits(&"a".repeat(59)));
        let pattern = NamePattern::parse(&format!("{}b", "a*".repeat(60))).unwrap();
        assert!(!pattern.fits(&"a".repeat(5000)));
    }
}
