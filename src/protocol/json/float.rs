//! Floating point numbers in the spelling of the reference.

use std::fmt::Write;

/// Appends the shortest spelling that reads back as the same number.
///
/// Plain notation holds for decimal exponents from -4 to 15, scientific notation with a sign and at
/// least two digits beyond. What would look like an integer gets `.0`. Values without digits are
/// spelled `NaN`, `Infinity` and `-Infinity`, which is outside the JSON standard.
pub(crate) fn write_float(out: &mut String, number: f64) {
    if number.is_nan() {
        out.push_str("NaN");
        return;
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    if number.is_infinite() {
        out.push_str("Infinity");
        return;
    }
    let shortest = shortest_digits(number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        write_plain(out, &mantissa.replace('.', ""), exponent);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing into a string cannot fail.
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
}

/// Two spellings of fewer digits are too far apart to be the same number both.
const FEWEST_DIGITS_OF_A_TIE: usize = 16;

/// The fewest digits that read back as the number, in scientific notation.
///
/// Where two spellings of that length are equally close, the reference takes the one whose last
/// digit is even, while the standard library's shortest form takes the larger one. Its form of a
/// given length rounds to even; at powers of two that form may belong to another number.
fn shortest_digits(number: f64) -> String {
    let shortest = format!("{number:e}");
    // Of the characters before the exponent one is the point.
    let digits = shortest.find('e').map_or(0, |characters| characters - 1);
    if digits < FEWEST_DIGITS_OF_A_TIE {
        return shortest;
    }
    let rounded = format!("{number:.*e}", digits - 1);
    if rounded.parse() == Ok(number) {
        rounded
    } else {
        shortest
    }
}

/// Appends `digits`, the first of which counts `10^exponent`, in plain notation.
fn write_plain(out: &mut String, digits: &str, exponent: i32) {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', leading_zeros(exponent)));
        out.push_str(digits);
        return;
    };
    match digits.split_at_checked(whole) {
        Some(("", fraction)) => {
            out.push_str("0.");
            out.push_str(fraction);
        }
        Some((integer, fraction)) => {
            out.push_str(integer);
            out.push('.');
            out.push_str(if fraction.is_empty() { "0" } else { fraction });
        }
        None => {
            out.push_str(digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len()));
            out.push_str(".0");
        }
    }
}

/// Zeros between the point and the first digit of a number with this negative exponent.
fn leading_zeros(exponent: i32) -> usize {
    usize::try_from(-exponent - 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_spelled_as_the_reference_spells_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (0.000_01, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123.456, "123.456"),
            (120.0, "120.0"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.234_567_8e22, "1.2345678e+22"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (1_634_495_266_782_192.0 + 0.25, "1634495266782192.2"),
            (1_634_495_266_782_192.0 + 0.75, "1634495266782192.8"),
            (f64::powi(2.0, -25), "2.9802322387695312e-08"),
            (f64::powi(2.0, -44), "5.684341886080802e-14"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (-f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let mut out = String::new();
            write_float(&mut out, number);
            assert_eq!(out, expected);
        }
    }
}
