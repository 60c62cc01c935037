//! `record!`: a struct whose field order is its wire layout.

/// Declares a record: a struct and its [`Jute`](crate::Jute) encoding, fields in wire order.
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::Jute for $name {
            const SIZE_MIN: usize = 0 $(+ <$type as $crate::Jute>::SIZE_MIN)*;

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::Jute::encode(&self.$field, out);)*
            }

            fn decode(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: <$type as $crate::Jute>::decode(reader)?,)* })
            }
        }
    };
}
