//! The name that a mistyped one was meant to be.

/// The candidate that is fewest changes away from `name`, if those are few for its length.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const MOST_CANDIDATES: usize = 1000;
    if name.len() > LONGEST {
        return None;
    }
    let near = candidates.into_iter().take(MOST_CANDIDATES).filter(|c| c.len() <= LONGEST);
    let (distance, candidate) = near.map(|c| (changes(name, c), c)).min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().div_ceil(4).min(3) && distance < candidate.len()).then_some(candidate)
}

/// How many letters must be added, dropped or replaced. One row of the usual table is kept.
fn changes(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(changes("kitten", "sitting"), 3);
        assert_eq!(closest("sofmax", ["sum", "softmax", "max"]), Some("softmax"));
        assert_eq!(closest("x", ["y", "z"]), None);
        assert_eq!(closest("rows", ["columns"]), None);
    }
}
