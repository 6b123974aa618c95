//! Plain tables for people.

use super::output::one_line;

/// Characters of a cell at most.
const LONGEST_CELL: usize = 160;

/// Lays out rows below their headings, in columns two spaces apart. Every row has one cell per heading.
pub(super) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    let headings = headings.map(str::to_owned);
    let lines: Vec<[String; COLUMNS]> = std::iter::once(&headings)
        .chain(rows)
        .map(|row| row.clone().map(|cell| cut(&one_line(&cell))))
        .collect();
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| {
            let cells: Vec<String> = line
                .iter()
                .zip(widths)
                .map(|(cell, width)| {
                    let padding = width - cell.chars().count();
                    cell.clone() + &" ".repeat(padding)
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

/// A cell that leaves room for the others; `--json` has all of it.
fn cut(cell: &str) -> String {
    if cell.chars().count() <= LONGEST_CELL {
        return cell.to_owned();
    }
    cell.chars().take(LONGEST_CELL - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_any_length_is_cut_to_what_can_be_read() {
        let text = table(["TITLE"], &[["ü".repeat(100_000)]]);
        let last = text.lines().last().unwrap();
        assert_eq!(last.chars().count(), LONGEST_CELL);
        assert!(last.ends_with('…'));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["0", "running"], ["10", "ä"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            table(["SLOT", "S"], &rows),
            "SLOT  S\n0     running\n10    ä"
        );
    }
}
