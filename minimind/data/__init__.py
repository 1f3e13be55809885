"""From files to batches.

The room follows the journey of the data, and each module says what comes in and what goes out:

- ``jsonl``      a file on disk -> checked texts (strict: a bad line is named, never skipped in silence)
- ``documents``  texts -> token ids, once, in one flat array
- ``pretrain``   token ids -> padded training samples, one document each (``PretrainDataset``)
- ``loader``     token ids -> batches whose order is a pure function of (seed, epoch, index)
- ``batch``      what a batch is: the tensors that one update is made of
- ``corpora``    the texts that are shipped with the package

Import from the module that owns a name, for example ``from minimind.data.pretrain import PretrainDataset``.
"""
