//! Something of each of a few services, found by its number without a hash: a reading of the flow table looks it up for every flow.

use guideway_forward::record::ServiceId;

/// That, in the places of their numbers, of which the lowest are given first.
#[derive(Debug)]
pub(super) struct ById<T>(Vec<Option<T>>);

impl<T> FromIterator<(ServiceId, T)> for ById<T> {
    fn from_iter<I: IntoIterator<Item = (ServiceId, T)>>(those: I) -> Self {
        let mut places = Vec::new();
        for (id, item) in those {
            let place = usize::from(id.0);
            if places.len() <= place {
                places.resize_with(place + 1, || None);
            }
            places[place] = Some(item);
        }
        Self(places)
    }
}

impl<T> ById<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, id: ServiceId) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn get(&self, id: ServiceId) -> Option<&T> {
        self.0.get(usize::from(id.0))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ServiceId) -> Option<&mut T> {
        self.0.get_mut(usize::from(id.0))?.as_mut()
    }

    pub(super) fn map<U>(self, mut f: impl FnMut(T) -> U) -> ById<U> {
        ById(self.0.into_iter().map(|place| place.map(&mut f)).collect())
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.0.into_iter().flatten()
    }
}
