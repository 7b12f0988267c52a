//! Small sums and products in which the variables of a case stand: `8D`, `D*o`, `3D+1`, `t/D`.
//!
//! ```text
//! sum     := product (('+' | '-') product)*
//! product := factor (('*' | '/' | nothing) factor)*      `8D` is `8*D`; `/` rounds up, as pieces do
//! factor  := number | name | '(' sum ')'
//! ```

use std::collections::BTreeMap;

/// The values of a case's variables.
pub type Variables = BTreeMap<String, u64>;

/// The value of an expression.
pub fn evaluate(text: &str, variables: &Variables) -> Result<u64, String> {
    let mut reader = Reader { rest: text, variables };
    let value = reader.sum().map_err(|reason| format!("`{text}`: {reason}"))?;
    if !reader.rest.is_empty() {
        return Err(format!("`{text}`: nothing is expected at `{}`", reader.rest));
    }
    u64::try_from(value).map_err(|_| format!("`{text}` is {value}, which is no size"))
}

struct Reader<'a> {
    rest: &'a str,
    variables: &'a Variables,
}

impl Reader<'_> {
    fn eats(&mut self, symbol: char) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<i128, String> {
        let mut value = self.product()?;
        loop {
            if self.eats('+') {
                value += self.product()?;
            } else if self.eats('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut value = self.factor()?;
        loop {
            let more = |c: char| c == '(' || c == '_' || c.is_ascii_alphanumeric();
            if self.eats('/') {
                let by = self.factor()?;
                if by <= 0 {
                    return Err(format!("a division by {by}"));
                }
                value = value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0);
            } else if self.eats('*') || self.rest.starts_with(more) {
                let by = self.factor()?;
                value = value.checked_mul(by).ok_or("it is too large")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<i128, String> {
        if self.eats('(') {
            let value = self.sum()?;
            return if self.eats(')') { Ok(value) } else { Err("`)` is missing".into()) };
        }
        let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let (number, rest) = self.rest.split_at(digits);
            self.rest = rest;
            return number.parse::<u64>().map(i128::from).map_err(|error| error.to_string());
        }
        let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let letters = self.rest.len() - self.rest.trim_start_matches(part_of_name).len();
        let (name, rest) = self.rest.split_at(letters);
        self.rest = rest;
        match self.variables.get(name) {
            Some(&value) => Ok(value.into()),
            None => Err(format!("`{name}` is not a variable of the case")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products() {
        let variables = Variables::from([("D".into(), 4), ("o".into(), 3)]);
        let values = [
            ("7", 7),
            ("8D", 32),
            ("D*o", 12),
            ("3D+1", 13),
            ("2(D-1)o", 18),
            ("13/D", 4),
            ("(D-1)*o*16/D", 36),
        ];
        for (text, value) in values {
            assert_eq!(evaluate(text, &variables), Ok(value), "{text}");
        }
        for text in ["", "E", "2D)", "(D", "D/0", "1-D", "8 D"] {
            assert!(evaluate(text, &variables).is_err(), "{text}");
        }
    }
}
