//! The logins. They live in memory only, for a limited time, and a stolen token says nothing of the password.
//! The caller passes the time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

/// Logins at once. The one that was used least recently makes room for a new one.
const LOGINS_MAX: usize = 64;
/// A login that was not used for this long has ended.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// The longest life of a login.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Tries of one address within [`TRIES_WINDOW`].
const TRIES_MAX: u32 = 10;
const TRIES_WINDOW: Duration = Duration::from_secs(60);
/// Addresses whose tries are counted. Beyond it all addresses wait for the window.
const ADDRESSES_MAX: usize = 4096;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

/// A login.
#[derive(Clone, Debug)]
pub(crate) struct Login<I> {
    pub(crate) identity: I,
    pub(crate) user: String,
    /// What a request that changes something must show besides the cookie.
    pub(crate) csrf: String,
    began: Instant,
    used: Instant,
}

/// All logins.
#[derive(Debug)]
pub(crate) struct Logins<I> {
    by_token: Mutex<HashMap<String, Login<I>>>,
    tries: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    /// The token against cross-site requests of visitors without a login.
    pub(crate) visitor_csrf: String,
}

/// A text that cannot be guessed.
fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two tokens are equal; takes the same time wherever they differ.
pub(crate) fn is_same_token(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

impl<I: Clone> Logins<I> {
    pub(crate) fn new() -> std::io::Result<Logins<I>> {
        let visitor_csrf = random_token()?;
        Ok(Logins { by_token: Mutex::default(), tries: Mutex::default(), visitor_csrf })
    }

    /// Counts a try. Returns whether it may go on.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= ADDRESSES_MAX {
            tries.retain(|_, (began, _)| now.duration_since(*began) < TRIES_WINDOW);
            if tries.len() >= ADDRESSES_MAX && !tries.contains_key(&address) {
                return false;
            }
        }
        let (began, count) = tries.entry(address).or_insert((now, 0));
        if now.duration_since(*began) >= TRIES_WINDOW {
            (*began, *count) = (now, 0);
        }
        *count += 1;
        *count <= TRIES_MAX
    }

    /// Begins a login. Returns its token.
    pub(crate) fn begin(&self, identity: I, user: &str, now: Instant) -> std::io::Result<String> {
        let (token, csrf) = (random_token()?, random_token()?);
        let mut logins = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        logins.retain(|_, login| login.is_alive(now));
        if logins.len() >= LOGINS_MAX
            && let Some(oldest) =
                logins.iter().min_by_key(|(_, login)| login.used).map(|(token, _)| token.clone())
        {
            logins.remove(&oldest);
        }
        logins.insert(token.clone(), Login { identity, user: user.to_owned(), csrf, began: now, used: now });
        Ok(token)
    }

    /// The login of a token, which counts as used now.
    pub(crate) fn find(&self, token: &str, now: Instant) -> Option<Login<I>> {
        let mut logins = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let login = logins.get_mut(token)?;
        if !login.is_alive(now) {
            logins.remove(token);
            return None;
        }
        login.used = now;
        Some(login.clone())
    }

    /// Ends a login.
    pub(crate) fn end(&self, token: &str) {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }
}

impl<I> Login<I> {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_MAX && now.duration_since(self.began) < AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_when_it_is_idle_old_or_logged_out() {
        let logins: Logins<u8> = Logins::new().unwrap();
        let begin = Instant::now();
        let token = logins.begin(7, "bob", begin).unwrap();
        assert_eq!(logins.find(&token, begin).unwrap().identity, 7);
        assert!(logins.find("other", begin).is_none());
        assert!(logins.find(&token, begin + IDLE_MAX).is_none());
        let token = logins.begin(7, "bob", begin).unwrap();
        let mut now = begin;
        while now < begin + AGE_MAX {
            assert!(logins.find(&token, now).is_some());
            now += IDLE_MAX / 2;
        }
        assert!(logins.find(&token, now).is_none(), "a login in use ends, too");
        let token = logins.begin(7, "bob", begin).unwrap();
        logins.end(&token);
        assert!(logins.find(&token, begin).is_none());
    }

    #[test]
    fn logins_are_bounded() {
        let logins: Logins<usize> = Logins::new().unwrap();
        let begin = Instant::now();
        let at = |number: usize| begin + Duration::from_millis(number as u64);
        let tokens: Vec<String> =
            (0..=LOGINS_MAX).map(|number| logins.begin(number, "x", at(number)).unwrap()).collect();
        assert!(logins.find(&tokens[0], at(100)).is_none());
        assert!(tokens[1..].iter().all(|token| logins.find(token, at(100)).is_some()));
    }

    #[test]
    fn passwords_cannot_be_guessed_quickly() {
        let logins: Logins<()> = Logins::new().unwrap();
        let (begin, address) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        let passed = (0..100).filter(|_| logins.may_try(address, begin)).count();
        assert_eq!(passed, TRIES_MAX as usize);
        assert!(logins.may_try(IpAddr::from([10, 0, 0, 2]), begin));
        assert!(logins.may_try(address, begin + TRIES_WINDOW));
    }

    #[test]
    fn counted_addresses_are_bounded() {
        let logins: Logins<()> = Logins::new().unwrap();
        let begin = Instant::now();
        for number in 0..2 * ADDRESSES_MAX as u32 {
            let _ = logins.may_try(IpAddr::from(number.to_be_bytes()), begin);
        }
        assert_eq!(logins.tries.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
