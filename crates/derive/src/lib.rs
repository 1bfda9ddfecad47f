//! `#[derive(Key)]`: structs and enums as keys. It writes an implementation of
//! `hedgerow::key::KeyCode` which puts the parts of a key one after the other; how each part is
//! encoded it leaves to the type of the part.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Member, Result, Type};

/// Implements `hedgerow::key::KeyCode`. Described at `hedgerow::key::Key`.
#[proc_macro_derive(Key)]
pub fn key(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let reason = "`Key` is derived for types without parameters: name the types of the fields";
        return Err(Error::new_spanned(&input.generics, reason));
    }
    let name = &input.ident;
    let (body, check) = match &input.data {
        Data::Struct(data) => (of_struct(&data.fields), None),
        Data::Enum(data) => (of_enum(name, data)?, Some(check_numbers(name, data))),
        Data::Union(data) => {
            let reason = "`Key` is derived for structs, and for enums without fields";
            return Err(Error::new_spanned(data.union_token, reason));
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::hedgerow::key::KeyCode for #name {
            type Ref<'a> = &'a Self;

            fn to_ref(&self) -> &Self {
                self
            }

            #body
        }
        #check
    })
}

/// A struct is encoded as the tuple of its fields, and one of a single field as this field.
fn of_struct(fields: &Fields) -> TokenStream {
    let members: Vec<Member> = fields.members().collect();
    let types: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let width = types.iter().fold(quote!(::std::option::Option::Some(0)), |before, part| {
        quote! {
            match (#before, <#part as ::hedgerow::key::KeyCode>::FIXED_WIDTH) {
                (::std::option::Option::Some(before), ::std::option::Option::Some(width)) => {
                    ::std::option::Option::Some(before + width)
                }
                _ => ::std::option::Option::None,
            }
        }
    });
    let rest = match (&members[..], &types[..]) {
        ([member], [part]) => of_newtype(member, part),
        _ => quote! {
            fn type_name(name: &mut ::std::string::String) {
                name.push('(');
                #(
                    <#types as ::hedgerow::key::KeyCode>::type_name(name);
                    name.push(',');
                )*
                name.push(')');
            }
        },
    };
    quote! {
        const FIXED_WIDTH: ::std::option::Option<usize> = #width;

        fn encode_part(value: &Self, out: &mut ::std::vec::Vec<u8>) {
            #(
                <#types as ::hedgerow::key::KeyCode>::encode_part(
                    <#types as ::hedgerow::key::KeyCode>::to_ref(&value.#members),
                    out,
                );
            )*
        }

        fn decode_part(
            bytes: &mut &[u8],
        ) -> ::std::result::Result<Self, ::hedgerow::key::DecodeError> {
            ::std::result::Result::Ok(Self {
                #(#members: <#types as ::hedgerow::key::KeyCode>::decode_part(bytes)?,)*
            })
        }

        #rest
    }
}

/// What stands alone is encoded as the field that stands alone.
fn of_newtype(member: &Member, part: &Type) -> TokenStream {
    quote! {
        fn type_name(name: &mut ::std::string::String) {
            <#part as ::hedgerow::key::KeyCode>::type_name(name);
        }

        fn encode(value: &Self, out: &mut ::std::vec::Vec<u8>) {
            <#part as ::hedgerow::key::KeyCode>::encode(
                <#part as ::hedgerow::key::KeyCode>::to_ref(&value.#member),
                out,
            );
        }

        fn decode(bytes: &[u8]) -> ::std::result::Result<Self, ::hedgerow::key::DecodeError> {
            <#part as ::hedgerow::key::KeyCode>::decode(bytes)
                .map(|part| Self { #member: part })
        }
    }
}

/// A variant is encoded as its number.
fn of_enum(name: &Ident, data: &DataEnum) -> Result<TokenStream> {
    if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
        let reason = "a variant of a key has no fields: put the enum and the fields into a struct";
        return Err(Error::new_spanned(variant, reason));
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(name, "an enum without variants has no keys"));
    }
    let variants: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let unknown = format!("no variant of {name} has this number");
    Ok(quote! {
        const FIXED_WIDTH: ::std::option::Option<usize> = ::std::option::Option::Some(1);

        fn type_name(name: &mut ::std::string::String) {
            <u8 as ::hedgerow::key::KeyCode>::type_name(name);
        }

        fn encode_part(value: &Self, out: &mut ::std::vec::Vec<u8>) {
            out.push(match value {
                #(Self::#variants => Self::#variants as u8,)*
            });
        }

        fn decode_part(
            bytes: &mut &[u8],
        ) -> ::std::result::Result<Self, ::hedgerow::key::DecodeError> {
            let number = <u8 as ::hedgerow::key::KeyCode>::decode_part(bytes)?;
            #(
                if number == Self::#variants as u8 {
                    return ::std::result::Result::Ok(Self::#variants);
                }
            )*
            ::std::result::Result::Err(::hedgerow::key::DecodeError::new(#unknown))
        }
    })
}

/// An error of the compiler if a number does not fit its byte.
fn check_numbers(name: &Ident, data: &DataEnum) -> TokenStream {
    let variants = data.variants.iter().map(|variant| &variant.ident);
    quote! {
        const _: () = {
            #(::std::assert!(
                0 <= #name::#variants as i128 && #name::#variants as i128 <= 255,
                "the variants of a key have numbers from 0 to 255"
            );)*
        };
    }
}

#[cfg(test)]
mod tests {
    //! What is refused, and why. What is accepted is tested in the library.

    use super::*;

    fn refused(input: DeriveInput) -> String {
        expand(&input).expect_err("it is refused").to_string()
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_reason() {
        let generic = refused(syn::parse_quote!(
            struct Pair<T> {
                one: T,
                two: T,
            }
        ));
        assert!(generic.starts_with("`Key` is derived for types without parameters"), "{generic}");
        let borrowed = refused(syn::parse_quote!(
            struct Name<'a>(&'a str);
        ));
        assert_eq!(borrowed, generic);
        let fields = refused(syn::parse_quote!(
            enum Place {
                Nowhere,
                At(u32, u32),
            }
        ));
        assert!(fields.starts_with("a variant of a key has no fields"), "{fields}");
        let empty = refused(syn::parse_quote!(
            enum Never {}
        ));
        assert_eq!(empty, "an enum without variants has no keys");
        let union = refused(syn::parse_quote!(
            union Bits {
                one: u32,
                two: f32,
            }
        ));
        assert!(union.starts_with("`Key` is derived for structs"), "{union}");
    }
}
