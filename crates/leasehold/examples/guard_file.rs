//! How do I keep a stale writer from a file?
//!
//! `guard_file FILE TOKEN` writes each line of its input to the file, and says whether it was let. Freeze it between two lines, write under a
//! higher token, and let it go on: it is refused.

use std::io::BufRead;

use leasehold::Token;
use leasehold::fence::Admission;
use leasehold::fence::guard::GuardedFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(token)) = (args.next(), args.next()) else {
        return Err("give a file and a token, as in: guard_file report.json 42".into());
    };
    let (file, token): (GuardedFile, Token) = (GuardedFile::new(path), token.parse()?);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match file.write(token, line.as_bytes())? {
            Admission::Admitted => println!("written {line}"),
            Admission::Refused(why) => println!("refused {line}: {why}"),
        }
    }
    Ok(())
}
