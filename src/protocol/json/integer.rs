//! Integers of any size, exact.

use std::fmt;

use crate::protocol::limits::MAX_INTEGER_DIGITS;

/// An integer of at most [`MAX_INTEGER_DIGITS`] digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Integer(Form);

/// Invariant: `Large` is outside the range of `i64`, in decimal without leading zeros.
#[derive(Clone, PartialEq, Eq)]
enum Form {
    Small(i64),
    Large(Box<str>),
}

impl Integer {
    /// The number, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Form::Small(number) => Some(number),
            Form::Large(_) => None,
        }
    }

    /// Whether the number is below zero.
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Form::Small(number) => *number < 0,
            Form::Large(digits) => digits.starts_with('-'),
        }
    }

    /// The number, or the end of the range of `i128` that it lies beyond.
    pub(crate) fn saturating_i128(&self) -> i128 {
        match &self.0 {
            Form::Small(number) => i128::from(*number),
            Form::Large(digits) => digits.parse().unwrap_or(if self.is_negative() {
                i128::MIN
            } else {
                i128::MAX
            }),
        }
    }

    /// Reads `-?(0|[1-9][0-9]*)`; `None` for other text and for too many digits.
    pub fn parse(literal: &str) -> Option<Self> {
        let digits = literal.strip_prefix('-').unwrap_or(literal);
        let leading_zero = digits.len() > 1 && digits.starts_with('0');
        let well_formed = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !well_formed || leading_zero || digits.len() > MAX_INTEGER_DIGITS {
            return None;
        }
        Some(Self(match literal.parse() {
            Ok(number) => Form::Small(number),
            Err(_) => Form::Large(literal.into()),
        }))
    }
}

impl From<i64> for Integer {
    fn from(number: i64) -> Self {
        Self(Form::Small(number))
    }
}

impl From<u64> for Integer {
    fn from(number: u64) -> Self {
        Self(match i64::try_from(number) {
            Ok(number) => Form::Small(number),
            Err(_) => Form::Large(number.to_string().into()),
        })
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Small(number) => fmt::Display::fmt(number, formatter),
            Form::Large(digits) => formatter.write_str(digits),
        }
    }
}

impl fmt::Debug for Integer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_out_as_they_came_in_and_minus_zero_is_zero() {
        let big = format!("-{}", "9".repeat(MAX_INTEGER_DIGITS));
        for (literal, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-1", "-1"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("-9223372036854775809", "-9223372036854775809"),
            (big.as_str(), big.as_str()),
        ] {
            assert_eq!(Integer::parse(literal).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_json_integer_is_refused() {
        let long = "1".repeat(MAX_INTEGER_DIGITS + 1);
        for literal in [
            "",
            "-",
            "00",
            "-01",
            "+1",
            "1.0",
            "1e3",
            " 1",
            "١",
            long.as_str(),
        ] {
            assert_eq!(Integer::parse(literal), None, "{literal}");
        }
    }

    #[test]
    fn sign_and_range_are_known_at_any_size() {
        for (literal, negative, small, saturated) in [
            ("-5", true, Some(-5), -5),
            ("18446744073709551616", false, None, 1 << 64),
            (&*format!("1{}", "0".repeat(60)), false, None, i128::MAX),
            (&*format!("-1{}", "0".repeat(60)), true, None, i128::MIN),
        ] {
            let integer = Integer::parse(literal).unwrap();
            assert_eq!(integer.is_negative(), negative);
            assert_eq!(integer.as_i64(), small);
            assert_eq!(integer.saturating_i128(), saturated);
        }
    }
}
