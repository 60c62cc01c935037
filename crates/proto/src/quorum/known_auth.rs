//! Identities that came with requests before. Every request that a learner sends on carries those of its client, and
//! most clients send more than one: what is known is shared and not read again.

use std::sync::Arc;

use crate::acl::Id;
use crate::jute::{DecodeError, Jute, Reader};

/// How many lists are remembered: each has one place where it can be.
const PLACES: usize = 64;

/// Longer ones are read every time.
const BYTES_MAX: usize = 256;

/// What one link has brought.
#[derive(Debug, Default)]
pub struct KnownAuth {
    /// Empty before the first one.
    places: Vec<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    encoded: Box<[u8]>,
    ids: Arc<[Id]>,
}

impl KnownAuth {
    /// Reads a list that is all that is left.
    pub(super) fn decode(&mut self, reader: &mut Reader<'_>) -> Result<Option<Arc<[Id]>>, DecodeError> {
        let encoded = reader.rest();
        let place = place_of(encoded);
        if let Some(Some(known)) = self.places.get(place)
            && *known.encoded == *encoded
        {
            return Ok(Some(known.ids.clone()));
        }
        let ids: Option<Arc<[Id]>> = Option::<Vec<Id>>::decode(reader)?.map(Arc::from);
        if let Some(ids) = &ids
            && encoded.len() <= BYTES_MAX
        {
            self.places.resize(PLACES, None);
            self.places[place] = Some(Known { encoded: encoded.into(), ids: ids.clone() });
        }
        Ok(ids)
    }
}

/// Lists mostly differ at their end: it is an address or a name.
fn place_of(encoded: &[u8]) -> usize {
    let end = encoded.last_chunk::<8>().map_or(0, |end| u64::from_be_bytes(*end));
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(name: &str) -> Option<Vec<Id>> {
        Some(vec![Id::new("ip", name)])
    }

    #[test]
    fn what_is_known_is_shared_and_the_rest_is_read() {
        let mut known = KnownAuth::default();
        let mut read = |ids: &Option<Vec<Id>>| {
            let mut bytes = Vec::new();
            ids.encode(&mut bytes);
            known.decode(&mut Reader::new(&bytes)).unwrap()
        };
        assert_eq!(read(&None), None);
        let first = read(&ids("127.0.0.1")).unwrap();
        assert!(Arc::ptr_eq(&first, &read(&ids("127.0.0.1")).unwrap()));
        // More than there are places, twice: each is always what it was.
        for number in (0..200).chain(0..200) {
            let wanted = ids(&format!("10.0.{number}.1"));
            assert_eq!(read(&wanted).as_deref(), wanted.as_deref());
        }
        let long = ids(&"x".repeat(BYTES_MAX));
        let (one, other) = (read(&long).unwrap(), read(&long).unwrap());
        assert!(one == other && !Arc::ptr_eq(&one, &other), "long ones are not kept");
    }

    #[test]
    fn damaged_ones_are_refused() {
        let mut known = KnownAuth::default();
        assert!(known.decode(&mut Reader::new(&[0, 0, 0, 1, 0, 0])).is_err());
    }
}
