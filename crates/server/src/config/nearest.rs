//! Finds the likely intended name for a misspelt one.

/// The candidate with the fewest edits, if they are few enough.
pub fn nearest_name<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = name.to_ascii_lowercase();
    let limit = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .map(|candidate| (distance(&folded, &candidate.to_ascii_lowercase()), candidate))
        .filter(|&(edits, _)| edits <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The number of edits between two names: insert, delete, replace, and swap of neighbours.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(100).collect();
    let right: Vec<char> = right.chars().take(100).collect();
    let mut before_last: Vec<usize> = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; right.len() + 1];
        for j in 1..=right.len() {
            let replace = last[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = last;
        last = row;
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (left, right, edits) in
            [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("tickTme", "tickTime", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(left, right), edits, "{left} {right}");
            assert_eq!(distance(right, left), edits, "{right} {left}");
        }
    }

    #[test]
    fn only_believable_names() {
        let known = ["tickTime", "dataDir", "dataLogDir", "clientPort"];
        let find = |name| nearest_name(name, known.into_iter());
        assert_eq!(find("tickTme"), Some("tickTime"));
        assert_eq!(find("TICKTIME"), Some("tickTime"));
        assert_eq!(find("datadir"), Some("dataDir"));
        assert_eq!(find("cleintPort"), Some("clientPort"));
        assert_eq!(find("somethingElse"), None);
        assert_eq!(find("x"), None);
    }
}
