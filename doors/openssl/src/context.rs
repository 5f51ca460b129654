//! What contexts that hold one of `default` have in common.

/// Calls a function of `default` for the context that one of ours holds; an answer of `$failed` where there is none.
macro_rules! pass {
    ($own:ident, $context:expr, $failed:expr, $function:ident ( $($argument:expr),* )) => {{
        // SAFETY: the core hands over contexts that we have made and that are alive, and arguments that the function takes.
        unsafe {
            match $own::of($context).and_then(|own| Some((own.inner, own.functions().$function?))) {
                Some((inner, function)) => function(inner, $($argument),*),
                None => $failed,
            }
        }
    }};
}
pub(crate) use pass;

/// The functions of a context with fields `of`, which algorithm it is, `inner`, the context of `default`, and `alone`; the module has
/// `functions`, those of `default` for an algorithm.
macro_rules! beside {
    ($own:ident, $table:ident) => {
        impl $own {
            /// The context that an object is.
            ///
            /// # Safety
            /// Null, or an object of `newctx` or `dupctx` that is alive, and that no other call is using.
            unsafe fn of<'a>(object: Object) -> Option<&'a mut $own> {
                // SAFETY: the caller's promise.
                unsafe { object.cast::<$own>().as_mut() }
            }

            fn functions(&self) -> &'static $table {
                functions(self.of)
            }
        }

        impl Drop for $own {
            fn drop(&mut self) {
                if let Some(free) = self.functions().freectx {
                    // SAFETY: this value's own context.
                    unsafe { free(self.inner) };
                }
            }
        }

        unsafe extern "C" fn freectx(context: Object) {
            guarded((), || {
                if !context.is_null() {
                    // SAFETY: the core's own, which it does not use any more.
                    drop(unsafe { Box::from_raw(context.cast::<$own>()) });
                }
            });
        }

        /// What `default` has answered: whoever was alone meanwhile is not on his way any more.
        fn by_default(context: Object, done: c_int) -> c_int {
            // SAFETY: the core's context.
            if let Some(own) = unsafe { $own::of(context) } {
                own.alone = None;
            }
            done
        }

        unsafe extern "C" fn get_ctx_params(context: Object, params: *mut Param) -> c_int {
            pass!($own, context, 0, get_ctx_params(params))
        }

        /// Lists of parameters are asked for with or without a context.
        ///
        /// # Safety
        /// Null, or a context of ours that is alive.
        unsafe fn inner_or_null(context: Object) -> Object {
            // SAFETY: the caller's promise.
            unsafe { $own::of(context) }.map_or(ptr::null_mut(), |own| own.inner)
        }

        unsafe extern "C" fn gettable_ctx_params<const OF: usize>(context: Object, _: Object) -> *const Param {
            // SAFETY: the core's context.
            let (inner, gettable) = (unsafe { inner_or_null(context) }, functions(OF).gettable_ctx_params);
            // SAFETY: contexts of `default`.
            gettable.map_or(ptr::null(), |gettable| unsafe { gettable(inner, provider_context()) })
        }

        unsafe extern "C" fn settable_ctx_params<const OF: usize>(context: Object, _: Object) -> *const Param {
            // SAFETY: the core's context.
            let (inner, settable) = (unsafe { inner_or_null(context) }, functions(OF).settable_ctx_params);
            // SAFETY: contexts of `default`.
            settable.map_or(ptr::null(), |settable| unsafe { settable(inner, provider_context()) })
        }
    };
}
pub(crate) use beside;
