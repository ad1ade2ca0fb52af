"""AIM (McKenna and others, 2022), as smartnoise-synth has it, told all marginals; run by a Python that has it.

    python aim.py IN.npz OUT.npz EPSILON DELTA MEGABYTES SEED

IN has `cells` (int64[n, A]) and `shape`. OUT gets each marginal of up to three attributes, by its attributes' numbers,
and the `seconds` it took.
"""

import itertools
import sys
import time

import numpy as np
import pandas as pd


def main() -> None:
    """Fit, and write the marginals as shares."""
    # of the other environment: this file is looked at where they are not
    from mbi import Dataset, Domain  # type: ignore[import-not-found] # noqa: PLC0415
    from snsynth.aim import AIMSynthesizer  # type: ignore[import-not-found] # noqa: PLC0415
    from snsynth.utils import cdp_rho  # type: ignore[import-not-found] # noqa: PLC0415

    begun = time.monotonic()
    source, target, *numbers = sys.argv[1:]
    epsilon, delta, megabytes, seed = map(float, numbers)
    given = np.load(source)
    names = [str(number) for number in range(len(given["shape"]))]
    data = Dataset(pd.DataFrame(given["cells"], columns=names), Domain(names, given["shape"].tolist()))
    np.random.seed(int(seed))  # noqa: NPY002 -- what it draws from
    aim = AIMSynthesizer(epsilon=epsilon, delta=delta, max_model_size=megabytes, verbose=True)
    aim.rho = cdp_rho(epsilon, delta)
    sets = [about for size in (1, 2, 3) for about in itertools.combinations(names, size)]
    aim.AIM(data, [about for about in sets if len(about) == 3])
    found = {"-".join(about): np.asarray(aim.synthesizer.project(about).values) for about in sets}
    np.savez(target, seconds=time.monotonic() - begun, **{key: values / values.sum() for key, values in found.items()})


if __name__ == "__main__":
    main()
