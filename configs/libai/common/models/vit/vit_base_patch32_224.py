from .vit_tiny_patch16_224 import model

model.cfg.patch_size = 32
model.cfg.embed_dim = 768
model.cfg.num_heads = 12
