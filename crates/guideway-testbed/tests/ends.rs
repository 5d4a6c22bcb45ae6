//! Every scenario with the decapsulator in the kernel, at both of its hooks.

mod xdp {
    use guideway_testbed::end::{Ended, XdpDecapsulator};
    use guideway_testbed::soft::SoftForwarder;

    guideway_testbed::scenarios!(Ended<SoftForwarder, XdpDecapsulator>);
}

mod tc {
    use guideway_testbed::end::{Ended, TcDecapsulator};
    use guideway_testbed::kernel::KernelForwarder;

    guideway_testbed::scenarios!(Ended<KernelForwarder, TcDecapsulator>);
}
