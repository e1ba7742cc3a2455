#!/usr/bin/env python3
"""Export models of real size with random weights, each with an input and the output that PyTorch gives for it.

usage: models.py FOLDER [--only NAME]... [--timm NAME]... [--transformers NAME]... [--batch N] [--dynamic] [--exporter dynamo|torchscript] [--optimize]

    FOLDER/NAME.onnx          as the exporter writes it, nothing optimized unless --optimize says so
    FOLDER/NAME.in.npz        inputs by name
    FOLDER/NAME.out.npz       outputs of eager PyTorch by name

What is there already stays. With --dynamic, those are exported whose dimensions are symbols, and beside them the same with
numbers; their inputs and outputs are of the sizes that those with numbers have. With --batch, NAME becomes NAME_bN: the model for N
inputs at once.
"""
import argparse
import contextlib
import functools
import importlib.util
import inspect
import io
import logging
import os
import pathlib
import warnings

import numpy as np
import torch
from tqdm import tqdm

OPSET = 18
SEED = 0
TOKENS = 128
NEW_TOKENS = 8  # of a decoder that has the keys and values of TOKENS others already


# Operators of torchvision's compiled library whose shape functions it declares in Python on import.
TORCHVISION_OPERATORS = [name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")]


@functools.cache
def import_torchvision():
    """Where the compiled library of torchvision does not load, being made for another build of PyTorch, the import
    itself fails unless its operators are declared at least; classifiers need none of them."""
    folder = pathlib.Path(importlib.util.find_spec("torchvision").origin).parent
    try:
        for library in folder.glob("_C*.so"):
            torch.ops.load_library(library)
    except OSError:
        declared = torch.library.Library("torchvision", "FRAGMENT")
        for operator in TORCHVISION_OPERATORS:
            declared.define(operator)
        import_torchvision.declared = declared  # the declarations live as long as this does
    import torchvision
    return torchvision


def from_torchvision(name, size=224, **options):
    def make():
        model = getattr(import_torchvision().models, name)(weights=None, **options)
        return model, {"image": torch.randn(1, 3, size, size)}, ["logits"]
    return make


def from_timm(name):
    """For images of the size that the model was made for."""
    def make():
        import_torchvision()
        import timm
        model = timm.create_model(name, pretrained=False)
        return model, {"image": torch.randn(1, *model.default_cfg["input_size"])}, ["logits"]
    return make


class FirstResult(torch.nn.Module):
    """A model of Hugging Face's, of which the first tensor is wanted."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        results = self.model(**dict(zip(self.names, inputs))).to_tuple()
        return next(result for result in results if isinstance(result, torch.Tensor) and result.is_floating_point())


LAYERS_AND_WORDS = {"num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 2000}


def from_transformers(name):
    """Of Hugging Face's library, by the name of its configuration: of the width that it has by default, but two layers and few words."""
    def make():
        import transformers
        config = transformers.CONFIG_MAPPING[name]()
        for key, most in LAYERS_AND_WORDS.items():
            if isinstance(getattr(config, key, None), int):
                setattr(config, key, min(getattr(config, key), most))
        for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
            if isinstance(getattr(config, key, None), int):
                setattr(config, key, min(getattr(config, key), 1))
        if hasattr(config, "use_cache"):
            config.use_cache = False
        model = transformers.AutoModel.from_config(config)
        size, words = getattr(config, "image_size", 224), getattr(config, "vocab_size", 1)
        inputs = {"input_ids": lambda: tokens(words), "input_values": lambda: {"input_values": torch.randn(1, 16000)},
                  "input_features": lambda: {"input_features": torch.randn(1, getattr(config, "num_mel_bins", 80), 3000)},
                  "pixel_values": lambda: {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), size, size)}}[model.main_input_name]()
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.randint(0, words, (1, NEW_TOKENS))
        known = inspect.signature(model.forward).parameters
        inputs = {key: value for key, value in inputs.items() if key in known}
        return FirstResult(model, list(inputs)), inputs, ["result"]
    return make


class Only(torch.nn.Module):
    """A transformer of which one result is wanted."""

    def __init__(self, model, result, **options):
        super().__init__()
        self.model, self.result, self.options = model, result, options

    def forward(self, input_ids, attention_mask):
        return getattr(self.model(input_ids=input_ids, attention_mask=attention_mask, **self.options), self.result)


def tokens(vocabulary):
    return {"input_ids": torch.randint(0, vocabulary, (1, TOKENS)), "attention_mask": torch.ones(1, TOKENS, dtype=torch.int64)}


def bert_base():
    from transformers import BertConfig, BertModel
    config = BertConfig(attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False)
    return Only(model, "last_hidden_state"), tokens(config.vocab_size), ["last_hidden_state"]


def gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(attn_implementation="eager")
    return Only(GPT2LMHeadModel(config), "logits", use_cache=False), tokens(config.vocab_size), ["logits"]


class WithPast(torch.nn.Module):
    """A decoder that takes the keys and values of the tokens before, layer by layer, and returns them with those of its own."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, past):
        from transformers import DynamicCache
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return result.logits, *(tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values))


def gpt2_small_past():
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(attn_implementation="eager")
    head = config.n_embd // config.n_head
    names = [f"{what}.{layer}" for layer in range(config.n_layer) for what in ("key", "value")]
    inputs = {"input_ids": torch.randint(0, config.vocab_size, (1, NEW_TOKENS)),
              "attention_mask": torch.ones(1, TOKENS + NEW_TOKENS, dtype=torch.int64),
              "past": {f"past_{name}": torch.randn(1, config.n_head, TOKENS, head) for name in names}}
    return WithPast(GPT2LMHeadModel(config)), inputs, ["logits", *(f"present_{name}" for name in names)]


def llama_8x512():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, vocab_size=32000, attn_implementation="eager")
    return Only(LlamaForCausalLM(config), "logits", use_cache=False), tokens(config.vocab_size), ["logits"]


class LstmLanguageModel(torch.nn.Module):
    def __init__(self, vocabulary=10000, width=512):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.lstm = torch.nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, input_ids):
        states, _ = self.lstm(self.embedding(input_ids))
        return self.head(states)


def lstm_language_model():
    return LstmLanguageModel(), {"input_ids": torch.randint(0, 10000, (1, TOKENS))}, ["logits"]


def double_convolution(inputs, outputs):
    """Two convolutions of 3×3 windows, each normalized."""
    steps = []
    for channels in (inputs, outputs):
        steps += [torch.nn.Conv2d(channels, outputs, 3, padding=1, bias=False), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*steps)


class UNet(torch.nn.Module):
    """Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation (2015), with padded convolutions."""

    def __init__(self, channels=(32, 64, 128, 256, 512)):
        super().__init__()
        levels = list(zip(channels, channels[1:]))
        self.first = double_convolution(3, channels[0])
        self.down = torch.nn.ModuleList(double_convolution(above, below) for above, below in levels)
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(below, above, 2, stride=2) for above, below in reversed(levels))
        self.merge = torch.nn.ModuleList(double_convolution(2 * above, above) for above, _ in reversed(levels))
        self.head = torch.nn.Conv2d(channels[0], 1, 1)

    def forward(self, image):
        skipped = [self.first(image)]
        for down in self.down:
            skipped.append(down(torch.nn.functional.max_pool2d(skipped[-1], 2)))
        result = skipped.pop()
        for up, merge in zip(self.up, self.merge):
            result = merge(torch.cat([up(result), skipped.pop()], dim=1))
        return torch.sigmoid(self.head(result))


def unet():
    return UNet(), {"image": torch.randn(1, 3, 256, 256)}, ["mask"]


MODELS = {
    "resnet50": from_torchvision("resnet50"),
    "mobilenet_v3_large": from_torchvision("mobilenet_v3_large"),
    "efficientnet_b0": from_timm("efficientnet_b0"),
    "densenet121": from_torchvision("densenet121"),
    "convnext_tiny": from_timm("convnext_tiny"),
    "inception_v3": from_torchvision("inception_v3", size=299, init_weights=True),
    "squeezenet1_1": from_torchvision("squeezenet1_1"),
    "unet": unet,
    "vit_b_16": from_torchvision("vit_b_16"),
    "swin_t": from_torchvision("swin_t"),
    "mixer_b16": from_timm("mixer_b16_224"),
    "bert_base": bert_base,
    "gpt2_small": gpt2_small,
    "llama_8x512": llama_8x512,
    "lstm_language_model": lstm_language_model,
}

# Variants by what they are variants of, with the symbols of their inputs' axes.
BATCH, SEQUENCE = {0: "batch"}, {0: "batch", 1: "sequence"}
DYNAMIC = {
    "resnet50_dynamic": ("resnet50", {"image": BATCH}),
    "bert_base_dynamic": ("bert_base", {"input_ids": SEQUENCE, "attention_mask": SEQUENCE}),
    "llama_8x512_dynamic": ("llama_8x512", {"input_ids": SEQUENCE, "attention_mask": SEQUENCE}),
    "gpt2_small_past_dynamic": ("gpt2_small_past", {"input_ids": SEQUENCE, "attention_mask": {0: "batch", 1: "total"},
                                                    "past": {0: "batch", 2: "past"}}),
}
STATIC = {"gpt2_small_past": gpt2_small_past}  # models that are here for the sake of their variants


def settle(model, inputs):
    """Weights under which every layer has a say in the output: what is made as zeros becomes random, and the running
    statistics of batch normalizations come from data, so that activations neither vanish nor explode."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            module.reset_parameters()
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the average over all runs that follow
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(*(torch.randn(4, *value.shape[1:]) for value in inputs.values()))


def flatten(inputs):
    """By name, those of lists among them."""
    return {key: value for name, group in inputs.items() for key, value in (group if isinstance(group, dict) else {name: group}).items()}


def for_batch(name, batch):
    return name if batch == 1 else f"{name}_b{batch}"


def export(name, models, folder, exporter, optimize, batch):
    import_torchvision()  # before transformers does it
    torch.manual_seed(SEED)
    static, symbols = DYNAMIC.get(name, (name, {}))
    model, inputs, output_names = models[static]()
    if batch > 1:
        inputs = {key: torch.cat([value] * batch) for key, value in inputs.items()}
    name = for_batch(name, batch)
    settle(model, inputs)
    model.eval()
    args = tuple(list(value.values()) if isinstance(value, dict) else value for value in inputs.values())
    with torch.no_grad():
        results = model(*args)
    # The exporters report their progress on standard output.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        how = {"dynamo": True, "optimize": optimize, "external_data": False, "verbose": False} if exporter == "dynamo" else \
              {"dynamo": False, "do_constant_folding": optimize}
        if symbols and exporter == "dynamo":
            how["dynamic_shapes"] = tuple([symbols[key]] * len(arg) if isinstance(arg, list) else symbols[key] for key, arg in zip(inputs, args))
        elif symbols:
            how["dynamic_axes"] = {name: symbols[key] for key, value in inputs.items() for name in flatten({key: value})}
        # A new name first: an export that was interrupted is not taken for a model.
        partial = folder / f"{name}.partial"
        torch.onnx.export(model, args, str(partial), input_names=list(flatten(inputs)), output_names=output_names, opset_version=OPSET, **how)
    results = results if isinstance(results, tuple) else (results,)
    np.savez(folder / f"{name}.in.npz", **{key: value.numpy() for key, value in flatten(inputs).items()})
    np.savez(folder / f"{name}.out.npz", **{key: value.numpy() for key, value in zip(output_names, results)})
    os.replace(partial, folder / f"{name}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=MODELS | STATIC | DYNAMIC, help="this model (may be repeated; default: all of fixed sizes)")
    parser.add_argument("--timm", action="append", default=[], metavar="NAME", help="any model of timm's by its name there (may be repeated)")
    parser.add_argument("--transformers", action="append", default=[], metavar="NAME", help="any model of Hugging Face's by the name of its configuration (may be repeated)")
    parser.add_argument("--batch", type=int, default=1, metavar="N")
    parser.add_argument("--dynamic", action="store_true", help="those with symbolic dimensions, and the same without")
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    parser.add_argument("--optimize", action="store_true", help="let the exporter optimize, as it does unless told not to")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    models = MODELS | STATIC | {name: from_timm(name) for name in options.timm} | {name: from_transformers(name) for name in options.transformers}
    of_all = [name for variant, (static, _) in DYNAMIC.items() for name in (static, variant)] if options.dynamic else MODELS
    names = [*(options.only or []), *options.timm, *options.transformers] or of_all
    missing = [name for name in names if not (options.folder / f"{for_batch(name, options.batch)}.onnx").exists()]
    with tqdm(missing, desc="exporting", disable=not missing) as progress:
        for name in progress:
            progress.set_postfix_str(name)
            export(name, models, options.folder, options.exporter, options.optimize, options.batch)


if __name__ == "__main__":
    main()
